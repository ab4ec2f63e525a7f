// Playing an environment: the policy's action as it is written, and the keys.
import { onPageKey } from "./keys.js";
import { follow } from "./stream.js";

const part = document.getElementById("now");
// Of every live rollout of the run: what is not named in `after` comes again from its start.
const lastIds = new Map();
let chunks = []; // of the episode's rollout: {o: first token, x: text}
let followed = null;

const writingPlace = () => part.querySelector("[data-writing]");

function show() {
  const place = writingPlace();
  if (place)
    place.textContent = chunks
      .filter((one) => one.o >= Number(place.dataset.past))
      .map((one) => one.x)
      .join("");
}

function play(chunk) {
  if (chunk.t === "started") chunks = [];
  // The action as it stands comes with the page.
  if (chunk.t === "edit") chunks = chunks.filter((one) => one.o < chunk.o);
  if (chunk.t === "text" || chunk.t === "edit") chunks.push({ o: chunk.o, x: chunk.x });
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
  const place = writingPlace();
  if (!place || followed !== null) return;
  followed = Number(place.dataset.rollout);
  follow(() => {
    const after = [...lastIds]
      .slice(-500)
      .map(([rollout, id]) => `${rollout}:${id}`)
      .join(",");
    return `/ws/live/?topic=${place.dataset.topic}${after ? `&after=${after}` : ""}`;
  }, take);
}

// It is the person's move again: where they write is where they are, unless they are elsewhere.
function focusText() {
  const text = part.querySelector("[data-say] textarea");
  if (text && document.activeElement === document.body) text.focus();
}

// How long the answer may still take, from when the page told it: the clocks may differ.
let until = 0;
const clock = () => part.querySelector("[data-left]");

function restartCountdown() {
  until = Date.now() + 1000 * Number(clock()?.dataset.left);
  updateCountdown();
}

function updateCountdown() {
  const place = clock();
  if (!place) return;
  const left = Math.max(0, Math.round((until - Date.now()) / 1000));
  place.textContent = left
    ? `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} left`
    : "no time left";
  place.classList.toggle("bad", left < 60);
}

part.addEventListener("htmx:after:swap", () => {
  listen();
  show();
  restartCountdown();
  focusText();
});

part.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.repeat || !(event.ctrlKey || event.metaKey)) return;
  event.target.closest("[data-say]")?.requestSubmit();
});

onPageKey((key) => {
  if (key === "p")
    (part.querySelector("[data-say] textarea") ?? part.querySelector("[data-play]"))?.focus();
  else if (key === "t") document.querySelector("[data-seat]")?.click();
  else return false;
  return true;
});

listen();
focusText();
restartCountdown();
setInterval(updateCountdown, 1000);
