// The page of one live rollout: streams its turns, and lets permitted people rate and steer it.
import { TurnEditor } from "./turn_editor.js";
import { steer } from "./steering.js";
import { onPageKey } from "./keys.js";
import { fetchPart } from "./site.js";
import { giveStars, releaseStars } from "./stars.js";
import { subscribe } from "./stream.js";
import { Transcript } from "./transcript.js";

const RATINGS_POLL_MS = 2000;
const INCOMPLETE_POLL_MS = 5000;
const MISSING_TEXT =
  "Part of this turn is missing on this page, so you can’t edit it. You can write the whole turn.";
const NEAR_BOTTOM_PX = 120;
const root = document.querySelector("[data-follow]");
const rollout = Number(root.dataset.rollout);
const steeringUrl = root.dataset.actionsUrl;
// Rollout → id of its last chunk, for all live rollouts of the run. The server sends rollouts that
// are missing in `after` again from their start.
const lastIds = new Map();
const elements = {
  state: document.querySelector("[data-state-label]"),
  status: root.querySelector("[data-status]"),
  holdNotice: root.querySelector("[data-hold-notice]"),
};

const isSampling = () => root.dataset.state === "sampling";

function createTurn(role) {
  const element = document.createElement("div");
  element.className = `say ${role}`;
  const roleLabel = document.createElement("b");
  roleLabel.textContent = role === "user" ? "user" : "policy";
  const textElement = document.createElement("div");
  textElement.className = "words";
  textElement.dir = "auto";
  element.append(roleLabel, textElement);
  return { element, words: textElement };
}

const transcript = isSampling()
  ? new Transcript(root.querySelector("[data-turns]"), { createTurn, byToken: true })
  : null;

function showStatus(text, kind = "") {
  if (!elements.status) return;
  elements.status.hidden = !text;
  elements.status.className = `action-status ${kind}`;
  elements.status.textContent = text;
}

function showHold(chunk) {
  const isOwn = editor?.isOpen && chunk?.by === document.body.dataset.name;
  elements.holdNotice.hidden = !chunk;
  elements.holdNotice.textContent = chunk
    ? `${isOwn ? "You are" : `${chunk.by ?? "Someone"} is`} writing. The policy is paused.`
    : "";
}

// The reply is complete. If chunks are missing, reload the page to show the whole text.
function onEnd(chunk) {
  root.dataset.state = "finished";
  elements.state.textContent = `complete${chunk.stop && chunk.stop !== "stop" ? `, ${chunk.stop}` : ""}`;
  root.querySelector("[data-reply-actions]")?.setAttribute("hidden", "");
  showHold(null);
  editor?.onEnd();
  setTimeout(() => releaseStars(rollout), 300); // its row is committed right after its last chunk
  refreshRatings();
  if (transcript.hasGaps && !editor?.isOpen) setTimeout(() => window.location.reload(), 1000);
}

// Show one chunk of the rollout, and keep the page scrolled to its end.
function applyChunk(chunk) {
  const isAtBottom =
    window.innerHeight + window.scrollY > document.documentElement.scrollHeight - NEAR_BOTTOM_PX;
  transcript.apply(chunk);
  if ("v" in chunk && chunk.v !== null)
    document.querySelector("[data-version]").textContent = `v${chunk.v}`;
  if (chunk.t === "held") showHold(chunk);
  if (["freed", "edit", "started"].includes(chunk.t)) showHold(null);
  if (chunk.t === "held" && !transcript.lastTurn.hasGap)
    editor?.onHeld(transcript.textOf(transcript.turns.length - 1), transcript.turns.length - 1);
  if (chunk.t === "end") onEnd(chunk);
  if (isAtBottom && !editor?.isOpen)
    window.scrollTo({ top: document.documentElement.scrollHeight });
}

function onFrame(frame) {
  // Loads the page again when the reply ends, unless the chunks begin again from the start.
  if (frame.snapshot_needed?.includes(rollout)) transcript.hasGaps = true;
  for (const incomplete of frame.snapshot_needed ?? []) lastIds.delete(incomplete);
  for (const chunk of frame.chunks ?? []) {
    if (chunk.t === "end" && chunk.r !== rollout) lastIds.delete(chunk.r);
    else lastIds.set(chunk.r, chunk.id);
    if (chunk.r === rollout) applyChunk(chunk);
  }
}

function buildUrl() {
  const after = [...lastIds]
    .slice(-500)
    .map(([liveRollout, id]) => `${liveRollout}:${id}`)
    .join(",");
  return `/ws/live/?topic=${root.dataset.topic}${after ? `&after=${after}` : ""}`;
}

async function refreshRatings() {
  const ratings = root.querySelector("[data-rollout-ratings]");
  if (isSampling() || ratings.childElementCount) return;
  const response = await fetchPart(`${root.dataset.chips}?rollout=${rollout}`);
  if (!response) return;
  // The fragment comes from our own server, and never contains the reply's text.
  const updated = new DOMParser()
    .parseFromString(await response.text(), "text/html")
    .querySelector("[data-rollout-ratings]");
  if (updated?.childElementCount) ratings.replaceWith(document.importNode(updated, true));
}

// If no chunks arrive, the server has lost the stream: load the page again once the reply is
// complete.
async function checkIfComplete() {
  if (!isSampling() || lastIds.has(rollout) || document.visibilityState !== "visible") return;
  const response = await fetchPart(`${root.dataset.cards}?rollout=${rollout}`);
  const parsed = new DOMParser().parseFromString((await response?.text()) ?? "", "text/html");
  const state = parsed.querySelector("[data-state]")?.dataset.state;
  if (!state || state === "sampling" || lastIds.has(rollout)) return;
  if (editor?.isOpen) editor.onEnd();
  else window.location.reload();
}

async function stop() {
  showStatus("Stopping…");
  const result = await steer(steeringUrl, "stop");
  if (result.state === "done") showStatus("Stopped", "good");
  else showStatus(result.reason, "bad");
}

const form = root.querySelector("[data-editor]");
const editor = form ? new TurnEditor(form, { steeringUrl, rollout, showStatus, isSampling }) : null;

// Open the editor with the current turn. It is the last one, and always the policy's: turns of
// users are never streamed.
function openEditor(kind) {
  if (kind === "edit" && transcript.lastTurn.hasGap) return showStatus(MISSING_TEXT, "bad");
  const turn = transcript.turns.length - 1;
  editor.open(kind, turn, transcript.textOf(turn));
}

const ACTIONS = { stop, edit: () => openEditor("edit"), seat: () => openEditor("seat") };
const KEYS = { x: "stop", e: "edit", t: "seat" };

function runAction(kind) {
  if (!editor || !isSampling() || editor.isOpen) return;
  ACTIONS[kind]();
}

root.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) runAction(button.dataset.act);
});

function closeOrGoUp() {
  if (editor?.isOpen) editor.cancel();
  else document.querySelector("[data-parent-link]").click();
}

onPageKey((key) => {
  if (key === "Escape") closeOrGoUp();
  else if (KEYS[key]) runAction(KEYS[key]);
  else if (/^[1-5]$/.test(key) && document.querySelector("[data-stars]"))
    giveStars(rollout, Number(key));
  else return false;
  return true;
});

editor?.resume();
if (transcript) {
  subscribe(buildUrl, onFrame);
  setInterval(checkIfComplete, INCOMPLETE_POLL_MS);
  const requestedAction = window.location.hash.slice(1);
  if (editor && !editor.isOpen && ["edit", "seat"].includes(requestedAction))
    editor.openWhenReady(requestedAction, () => transcript.nextToken > 0, openEditor);
}
setInterval(refreshRatings, RATINGS_POLL_MS);
refreshRatings();
