// Playing an environment: the policy's action as it is written, and the keys.
import { isTyping, isUnderDialog } from "./keys.js";
import { follow } from "./stream.js";

const part = document.getElementById("now");
const lastIds = new Map(); // of every live rollout of the run: what is not named in `after` comes again from its start
let said = []; // of the episode's rollout: {o: first token, x: text}
let followed = null;

const home = () => part.querySelector("[data-writing]");

function show() {
  const place = home();
  if (place) place.textContent = said.filter((one) => one.o >= Number(place.dataset.past)).map((one) => one.x).join("");
}

function play(chunk) {
  if (chunk.t === "started") said = [];
  if (chunk.t === "edit") said = said.filter((one) => one.o < chunk.o); // the action as it stands comes with the page
  if (chunk.t === "text" || chunk.t === "edit") said.push({ o: chunk.o, x: chunk.x });
}

function take(frame) {
  for (const chunk of frame.chunks ?? []) {
    if (chunk.t === "end") lastIds.delete(chunk.r);
    else lastIds.set(chunk.r, chunk.id);
    if (chunk.r === followed) play(chunk);
  }
  show();
}

function listen() {
  const place = home();
  if (!place || followed !== null) return;
  followed = Number(place.dataset.rollout);
  follow(() => {
    const after = [...lastIds].slice(-500).map(([rollout, id]) => `${rollout}:${id}`).join(",");
    return `/ws/live/?topic=${place.dataset.topic}${after ? `&after=${after}` : ""}`;
  }, take);
}

// It is the person's move again: where they write is where they are, unless they are elsewhere.
function arrive() {
  const text = part.querySelector("[data-say] textarea");
  if (text && document.activeElement === document.body) text.focus();
}

part.addEventListener("htmx:after:swap", () => {
  listen();
  show();
  arrive();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.closest("[data-say]")?.requestSubmit();
  if (isTyping(event) || isUnderDialog()) return;
  if (event.key === "p") (part.querySelector("[data-say] textarea") ?? part.querySelector("[data-play]"))?.focus();
  else if (event.key === "t") document.querySelector("[data-seat]")?.click();
  else return;
  event.preventDefault(); // the letter is a command, not the first character
});

listen();
arrive();
