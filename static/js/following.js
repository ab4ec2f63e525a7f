// One rollout followed large: its turns as they come, stars while it streams, and the acts of those
// who may.
import { Editor } from "./editor.js";
import { act } from "./acts.js";
import { onPageKey } from "./keys.js";
import { finished, give } from "./rate.js";
import { follow } from "./stream.js";
import { Transcript } from "./transcript.js";

const CHIPS_EVERY_MS = 2000;
const NEAR_THE_END_PX = 120;
const home = document.querySelector("[data-follow]");
const rollout = Number(home.dataset.rollout);
const acts = home.dataset.acts;
// Of every live rollout of the run: what is not named in `after` comes again from its start.
const lastIds = new Map();
const words = {
  state: document.querySelector("[data-state-words]"),
  told: home.querySelector("[data-told]"),
  held: home.querySelector("[data-held]"),
};

const isBeingWritten = () => home.dataset.state === "sampling";

function frame(role) {
  const element = document.createElement("div");
  element.className = `say ${role}`;
  const who = document.createElement("b");
  who.textContent = role === "user" ? "user" : "policy";
  const words = document.createElement("div");
  words.className = "words";
  words.dir = "auto";
  element.append(who, words);
  return { element, words };
}

const transcript = isBeingWritten()
  ? new Transcript(home.querySelector("[data-turns]"), { frame, byToken: true })
  : null;

function tell(text, tone = "") {
  if (!words.told) return;
  words.told.hidden = !text;
  words.told.className = `told ${tone}`;
  words.told.textContent = text;
}

function showHeld(chunk) {
  const mine = editor?.isOpen && chunk?.by === document.body.dataset.name;
  words.held.hidden = !chunk;
  words.held.textContent = chunk
    ? `${mine ? "You are" : `${chunk.by ?? "Someone"} is`} writing. The policy is paused.`
    : "";
}

function end(chunk) {
  home.dataset.state = "finished";
  words.state.textContent = `complete${chunk.stop && chunk.stop !== "stop" ? `, ${chunk.stop}` : ""}`;
  home.querySelector("[data-acting]")?.setAttribute("hidden", "");
  showHeld(null);
  editor?.ended();
  setTimeout(() => finished(rollout), 300); // its row is committed right after its last chunk
  askChips();
  if (transcript.hasLostWords && !editor?.isOpen) setTimeout(() => window.location.reload(), 1000);
}

function play(chunk) {
  const isAtTheEnd =
    window.innerHeight + window.scrollY > document.documentElement.scrollHeight - NEAR_THE_END_PX;
  transcript.take(chunk);
  if ("v" in chunk && chunk.v !== null)
    document.querySelector("[data-version]").textContent = `v${chunk.v}`;
  if (chunk.t === "held") showHeld(chunk);
  if (["freed", "edit", "started"].includes(chunk.t)) showHeld(null);
  if (chunk.t === "held")
    editor?.held(transcript.textOf(transcript.turns.length - 1), transcript.turns.length - 1);
  if (chunk.t === "end") end(chunk);
  if (isAtTheEnd && !editor?.isOpen)
    window.scrollTo({ top: document.documentElement.scrollHeight });
}

function take(frame) {
  if (frame.snapshot_needed?.includes(rollout)) transcript.hasLostWords = true;
  for (const lost of frame.snapshot_needed ?? []) lastIds.delete(lost);
  for (const chunk of frame.chunks ?? []) {
    if (chunk.t === "end" && chunk.r !== rollout) lastIds.delete(chunk.r);
    else lastIds.set(chunk.r, chunk.id);
    if (chunk.r === rollout) play(chunk);
  }
}

function address() {
  const after = [...lastIds]
    .slice(-500)
    .map(([one, id]) => `${one}:${id}`)
    .join(",");
  return `/ws/live/?topic=${home.dataset.topic}${after ? `&after=${after}` : ""}`;
}

async function askChips() {
  const now = home.querySelector("[data-judged]");
  if (isBeingWritten() || now.childElementCount) return;
  const answer = await fetch(`${home.dataset.chips}?rollout=${rollout}`).catch(() => null);
  if (!answer?.ok) return;
  // Our own server's fragment; the reply's text is never in it.
  const fresh = new DOMParser()
    .parseFromString(await answer.text(), "text/html")
    .querySelector("[data-judged]");
  if (fresh?.childElementCount) now.replaceWith(document.importNode(fresh, true));
}

async function stop() {
  tell("Stopping…");
  const answer = await act(acts, "stop");
  if (answer.state === "done") tell("Stopped", "good");
  else tell(answer.reason, "bad");
}

const form = home.querySelector("[data-editor]");
const editor =
  form && transcript ? new Editor(form, { acts, rollout, tell, isBeingWritten }) : null;

// The turn under way as it reads now: a user's is never open, so the last is the policy's.
function open(kind) {
  const turn = transcript.turns.length - 1;
  editor.open(kind, turn, transcript.textOf(turn));
}

const ACTS = { stop, edit: () => open("edit"), seat: () => open("seat") };
const KEYS = { x: "stop", e: "edit", t: "seat" };

function perform(kind) {
  if (!editor || !isBeingWritten() || editor.isOpen) return;
  ACTS[kind]();
}

home.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) perform(button.dataset.act);
});

function leave() {
  if (editor?.isOpen) editor.cancel();
  else document.querySelector("[data-up]").click();
}

onPageKey((key) => {
  if (key === "Escape") leave();
  else if (KEYS[key]) perform(KEYS[key]);
  else if (/^[1-5]$/.test(key) && document.querySelector("[data-stars]"))
    give(rollout, Number(key));
  else return false;
  return true;
});

if (transcript) {
  follow(address, take);
  editor?.resume();
  const wanted = window.location.hash.slice(1);
  if (editor && !editor.isOpen && ["edit", "seat"].includes(wanted))
    editor.openWhenHeard(wanted, () => transcript.next > 0, open);
}
setInterval(askChips, CHIPS_EVERY_MS);
askChips();
