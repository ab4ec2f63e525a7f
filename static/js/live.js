// The live wall: text from the socket, everything structured fetched as a fragment. Cards keep their place.
import { cardKey, inFocus } from "./cards.js";
import { isTyping, isUnderDialog } from "./keys.js";
import { finished } from "./rate.js";
import { follow, throttled } from "./stream.js";

const CARD = ".roll";
const SHADES = 10;
const LAST_IDS_KEPT = 500;
const CHIPS_EVERY_MS = 2000;
const wall = document.querySelector("[data-wall]");
const lastIds = new Map(); // rollout → stream id, oldest first
const pieces = new Map(); // rollout → chunks that came before its card was there
const wanted = new Set(); // rollouts whose cards are to be fetched

function cardOf(rollout) {
  return document.getElementById(`card-${rollout}`);
}

function remember(chunk) {
  lastIds.delete(chunk.r);
  if (chunk.t !== "end") lastIds.set(chunk.r, chunk.id); // what has ended is not asked for again: the address stays short
  if (lastIds.size > LAST_IDS_KEPT) lastIds.delete(lastIds.keys().next().value);
}

function shade(logprobs) {
  const mean = logprobs.reduce((sum, value) => sum + value, 0) / Math.max(1, logprobs.length);
  return `p${Math.min(SHADES - 1, Math.floor(Math.exp(Math.min(0, mean)) * SHADES))}`;
}

function caretOf(said) {
  let caret = said.querySelector(".caret");
  if (!caret) {
    caret = document.createElement("span");
    caret.className = "caret";
    said.append(caret);
  }
  return caret;
}

function append(card, chunk) {
  const said = card.querySelector("[data-said]");
  if (chunk.o === 0) said.replaceChildren();
  const piece = document.createElement("span");
  piece.className = shade(chunk.lp ?? []);
  piece.textContent = chunk.x; // hostile text: never as markup
  caretOf(said).before(piece);
  said.scrollTop = said.scrollHeight;
  card.querySelector("[data-version]").textContent = `v${chunk.v}`;
}

function countStreaming() {
  const count = wall.querySelectorAll("[data-state=sampling]").length;
  const place = document.querySelector("[data-streaming]");
  place.textContent = count ? `${count} ${count === 1 ? "reply" : "replies"} streaming · ` : "";
}

function end(card, rollout) {
  card.querySelector(".caret")?.remove();
  card.dataset.state = "finished";
  card.classList.remove("sampling");
  card.classList.add("done");
  setTimeout(() => finished(rollout), 300); // its row is committed right after its last chunk
  askChips();
  countStreaming();
}

function play(chunk) {
  const card = cardOf(chunk.r);
  if (!card) {
    pieces.set(chunk.r, [...(pieces.get(chunk.r) ?? []), chunk]);
    wanted.add(chunk.r);
    fetchCards();
  } else if (chunk.t === "text") append(card, chunk);
  else if (chunk.t === "end") end(card, chunk.r);
}

// The slot a newcomer may take: the longest finished card that nobody looks at.
function freeSlot() {
  const cards = [...wall.querySelectorAll(CARD)];
  if (cards.length < Number(wall.dataset.most)) return null;
  return cards.filter((card) => card.dataset.state !== "sampling" && !card.matches(":hover, :focus-within, .sel")).sort((a, b) => a.dataset.rollout - b.dataset.rollout)[0];
}

function place(card) {
  const slot = freeSlot();
  if (slot === undefined) return; // the wall is full of cards in use
  card.classList.add("fresh");
  if (slot) slot.replaceWith(card);
  else wall.append(card);
  document.querySelector("[data-wall-empty]")?.setAttribute("hidden", "");
  const waiting = pieces.get(Number(card.dataset.rollout)) ?? [];
  pieces.delete(Number(card.dataset.rollout));
  if (card.dataset.state === "sampling") waiting.forEach(play);
  countStreaming();
}

async function fragments(address, rollouts) {
  const answer = await fetch(`${address}?${rollouts.map((rollout) => `rollout=${rollout}`).join("&")}`);
  if (!answer.ok) return [];
  // Our own server's fragment; model output in it is escaped text.
  return [...new DOMParser().parseFromString(await answer.text(), "text/html").body.children].map((child) => document.importNode(child, true));
}

const fetchCards = throttled(async () => {
  const most = Number(wall.dataset.most);
  const rollouts = [...wanted].slice(-most);
  for (const skipped of [...wanted].slice(0, -most)) pieces.delete(skipped);
  wanted.clear();
  if (rollouts.length) for (const card of await fragments(wall.dataset.cards, rollouts)) if (!cardOf(card.dataset.rollout)) place(card);
}, 400);

const askChips = throttled(async () => {
  const open = [...wall.querySelectorAll(`${CARD}.done`)].filter((card) => !card.querySelector(".chip")).map((card) => card.dataset.rollout);
  if (!open.length) return;
  for (const judged of await fragments(wall.dataset.chips, open)) {
    const place = wall.querySelector(`[data-judged="${judged.dataset.judged}"]`);
    if (judged.childElementCount) place?.replaceWith(judged);
  }
}, CHIPS_EVERY_MS);

async function snapshot(rollouts) {
  for (const rollout of rollouts) lastIds.delete(rollout);
  for (const card of await fragments(wall.dataset.cards, rollouts.slice(0, Number(wall.dataset.most)))) {
    const known = cardOf(card.dataset.rollout);
    if (known) known.replaceWith(card);
  }
}

function take(frame) {
  if (frame.snapshot_needed) snapshot(frame.snapshot_needed);
  for (const chunk of frame.chunks ?? []) {
    remember(chunk);
    play(chunk);
  }
}

function address() {
  const topics = wall.dataset.topics.split(",").filter(Boolean).map((topic) => `topic=${topic}`);
  const after = [...lastIds].map(([rollout, id]) => `${rollout}:${id}`).join(",");
  return `/ws/live/?${topics.join("&")}${after ? `&after=${after}` : ""}`;
}

document.addEventListener("keydown", (event) => {
  if (!wall || cardKey(event, CARD) || isTyping(event) || isUnderDialog()) return;
  if (event.key === "o") inFocus(CARD)?.querySelector("a")?.click();
});

if (wall?.dataset.topics) {
  countStreaming();
  follow(address, take);
  setInterval(askChips, CHIPS_EVERY_MS);
}
