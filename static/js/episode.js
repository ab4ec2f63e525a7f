// The page on which a person plays an environment: shows the policy's action while it is generated,
// and handles keys.
import { onPageKey } from "./keys.js";
import { subscribe } from "./stream.js";

const region = document.getElementById("now");
// Rollout → id of its last chunk, for all live rollouts of the run. The server sends rollouts that
// are missing in `after` again from their start.
const lastIds = new Map();
let chunks = []; // of the episode's rollout, those with text
let rolloutShown = null;

const actionElement = () => region.querySelector("[data-current-reply]");

function showAction() {
  const element = actionElement();
  if (element) element.textContent = joinChunks(Number(element.dataset.offset));
}

// Return the text from a token on. Where chunks between others are missing, it says so.
function joinChunks(offset) {
  let text = "";
  let next = Infinity;
  for (const chunk of chunks.filter(({ o }) => o >= offset)) {
    text += (chunk.o > next ? "[text missing] " : "") + chunk.x;
    next = chunk.o + chunk.n;
  }
  return text;
}

function applyChunk(chunk) {
  if (chunk.t === "started") chunks = [];
  // The page already contains the action up to this edit.
  if (chunk.t === "edit") chunks = chunks.filter((earlier) => earlier.o < chunk.o);
  if (chunk.t === "text" || chunk.t === "edit") chunks.push(chunk);
}

function onFrame(frame) {
  for (const chunk of frame.chunks ?? []) {
    if (chunk.t === "end") lastIds.delete(chunk.r);
    else lastIds.set(chunk.r, chunk.id);
    if (chunk.r === rolloutShown) applyChunk(chunk);
  }
  showAction();
}

function subscribeOnce() {
  const element = actionElement();
  if (!element || rolloutShown !== null) return;
  rolloutShown = Number(element.dataset.rollout);
  subscribe(() => {
    const after = [...lastIds]
      .slice(-500)
      .map(([rollout, id]) => `${rollout}:${id}`)
      .join(",");
    return `/ws/live/?topic=${element.dataset.topic}${after ? `&after=${after}` : ""}`;
  }, onFrame);
}

// Focus the text field when it is the person's turn, unless the focus is elsewhere.
function focusInput() {
  const input = region.querySelector("[data-message-form] textarea");
  if (input && document.activeElement === document.body) input.focus();
}

// When the time for the answer ends. It is counted from when the page received it, because the
// clocks may differ.
let deadline = 0;
const countdown = () => region.querySelector("[data-seconds-left]");

function restartCountdown() {
  deadline = Date.now() + 1000 * Number(countdown()?.dataset.secondsLeft);
  updateCountdown();
}

function updateCountdown() {
  const element = countdown();
  if (!element) return;
  const secondsLeft = Math.max(0, Math.round((deadline - Date.now()) / 1000));
  element.textContent = secondsLeft
    ? `${Math.floor(secondsLeft / 60)}:${String(secondsLeft % 60).padStart(2, "0")} left`
    : "no time left";
  element.classList.toggle("bad", secondsLeft < 60);
}

region.addEventListener("htmx:after:swap", () => {
  subscribeOnce();
  showAction();
  restartCountdown();
  focusInput();
});

region.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.repeat || event.isComposing) return;
  if (!event.ctrlKey && !event.metaKey) return;
  event.target.closest("[data-message-form]")?.requestSubmit();
});

onPageKey((key) => {
  if (key === "p")
    (
      region.querySelector("[data-message-form] textarea") ?? region.querySelector("[data-play]")
    )?.focus();
  else if (key === "t") document.querySelector("[data-write-turn]")?.click();
  else return false;
  return true;
});

subscribeOnce();
focusInput();
restartCountdown();
setInterval(updateCountdown, 1000);
