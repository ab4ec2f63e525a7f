// The live wall: text from the socket, everything structured fetched as a fragment. Cards keep
// their place.
import { cardKey, inFocus } from "./cards.js";
import { onPageKey } from "./keys.js";
import { finished } from "./rate.js";
import { act } from "./acts.js";
import { follow, throttled } from "./stream.js";
import { Transcript } from "./transcript.js";

const CARD = ".roll";
const LAST_IDS_KEPT = 500;
const CHIPS_EVERY_MS = 2000;
const wall = document.querySelector("[data-wall]");
const lastIds = new Map(); // rollout → stream id, oldest first
const pieces = new Map(); // rollout → chunks that came before its card was there
const wanted = new Set(); // rollouts whose cards are to be fetched
const transcripts = new WeakMap(); // card → what is said on it

function cardOf(rollout) {
  return document.getElementById(`card-${rollout}`);
}

function remember(chunk) {
  lastIds.delete(chunk.r);
  // What has ended is not asked for again: the address stays short.
  if (chunk.t !== "end") lastIds.set(chunk.r, chunk.id);
  if (lastIds.size > LAST_IDS_KEPT) lastIds.delete(lastIds.keys().next().value);
}

function frame(role) {
  const element = document.createElement("div");
  element.className = role;
  return { element, words: element };
}

function transcriptOf(card) {
  if (!transcripts.has(card))
    transcripts.set(card, new Transcript(card.querySelector("[data-said]"), { frame }));
  return transcripts.get(card);
}

function show(card, chunk) {
  transcriptOf(card).take(chunk);
  const text = card.querySelector("[data-said]");
  text.scrollTop = text.scrollHeight;
  if ((chunk.v ?? null) !== null) card.querySelector("[data-version]").textContent = `v${chunk.v}`;
  if (["held", "freed", "edit", "started"].includes(chunk.t))
    card.classList.toggle("held", chunk.t === "held");
}

function countStreaming() {
  const count = wall.querySelectorAll("[data-state=sampling]").length;
  const place = document.querySelector("[data-streaming]");
  place.textContent = count ? `${count} ${count === 1 ? "reply" : "replies"} streaming · ` : "";
}

function end(card, rollout) {
  card.querySelector(".caret")?.remove();
  card.classList.remove("held");
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
  } else if (chunk.t === "end") end(card, chunk.r);
  else show(card, chunk);
}

// The slot a newcomer may take: the longest finished card that nobody looks at.
function freeSlot() {
  const cards = [...wall.querySelectorAll(CARD)];
  if (cards.length < Number(wall.dataset.most)) return null;
  return cards
    .filter(
      (card) => card.dataset.state !== "sampling" && !card.matches(":hover, :focus-within, .sel"),
    )
    .sort((a, b) => a.dataset.rollout - b.dataset.rollout)[0];
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
  const answer = await fetch(
    `${address}?${rollouts.map((rollout) => `rollout=${rollout}`).join("&")}`,
  );
  if (!answer.ok) return [];
  // Our own server's fragment; model output in it is escaped text.
  return [...new DOMParser().parseFromString(await answer.text(), "text/html").body.children].map(
    (child) => document.importNode(child, true),
  );
}

const fetchCards = throttled(async () => {
  const most = Number(wall.dataset.most);
  const rollouts = [...wanted].slice(-most);
  for (const skipped of [...wanted].slice(0, -most)) pieces.delete(skipped);
  wanted.clear();
  if (rollouts.length)
    for (const card of await fragments(wall.dataset.cards, rollouts))
      if (!cardOf(card.dataset.rollout)) place(card);
}, 400);

const askChips = throttled(async () => {
  const open = [...wall.querySelectorAll(`${CARD}.done`)]
    .filter((card) => !card.querySelector(".chip"))
    .map((card) => card.dataset.rollout);
  if (!open.length) return;
  for (const judged of await fragments(wall.dataset.chips, open)) {
    const place = wall.querySelector(`[data-judged="${judged.dataset.judged}"]`);
    if (judged.childElementCount) place?.replaceWith(judged);
  }
}, CHIPS_EVERY_MS);

async function snapshot(rollouts) {
  for (const rollout of rollouts) lastIds.delete(rollout);
  for (const card of await fragments(
    wall.dataset.cards,
    rollouts.slice(0, Number(wall.dataset.most)),
  )) {
    const known = cardOf(card.dataset.rollout);
    if (known) known.replaceWith(card);
    if (card.dataset.state !== "sampling") finished(Number(card.dataset.rollout));
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
  const topics = wall.dataset.topics
    .split(",")
    .filter(Boolean)
    .map((topic) => `topic=${topic}`);
  const after = [...lastIds].map(([rollout, id]) => `${rollout}:${id}`).join(",");
  return `/ws/live/?${topics.join("&")}${after ? `&after=${after}` : ""}`;
}

const KEYS = { o: "[data-opens-large]", x: "[data-stop]", e: "[data-edit]", t: "[data-seat]" };

if (wall) {
  onPageKey((key, event) => cardKey(key, event, CARD), { repeats: true });
  onPageKey((key) => {
    if (!(key in KEYS)) return false;
    inFocus(CARD)?.querySelector(KEYS[key])?.click();
    return true;
  });
}

async function stop(button) {
  const card = button.closest(CARD);
  const place = card.querySelector("[data-kept]");
  button.disabled = true;
  const answer = await act(button.dataset.stop, "stop");
  if (answer.state !== "done") {
    button.disabled = false;
    place.hidden = false;
    place.textContent = answer.reason;
  }
}

wall?.addEventListener("click", (event) => {
  const button = event.target.closest("[data-stop]");
  if (button) stop(button);
});

// A wall whose runs are all over says so, and leads to those that stream now.
const OVER_EVERY_MS = 10_000;
const over = document.querySelector("[data-wall-over]");

async function askWhetherOver() {
  if (document.visibilityState !== "visible") return;
  const asked = wall.dataset.topics
    .split(",")
    .map((topic) => `topic=${topic}`)
    .join("&");
  const answer = await fetch(`${over.dataset.wallOver}?${asked}`).catch(() => null);
  // Asked again in a moment; the dot says when the server is away.
  if (!answer?.ok || answer.redirected) return;
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (over.textContent.trim() === parsed.body.textContent.trim()) return;
  over.replaceChildren(
    ...[...parsed.body.children].map((child) => document.importNode(child, true)),
  );
}

if (wall?.dataset.topics) {
  setInterval(askWhetherOver, OVER_EVERY_MS);
  countStreaming();
  follow(address, take);
  setInterval(askChips, CHIPS_EVERY_MS);
}
