// The live page: text comes from the WebSocket, everything else as HTML fragments. Cards keep their
// places.
import { handleCardKey, selectedCard } from "./cards.js";
import { onPageKey } from "./keys.js";
import { fetchPart } from "./site.js";
import { releaseStars } from "./stars.js";
import { steer } from "./steering.js";
import { subscribe, throttle } from "./stream.js";
import { Transcript } from "./transcript.js";

const CARD = ".rollout-card";
const MAX_LAST_IDS = 500;
const RATINGS_POLL_MS = 2000;
const INCOMPLETE_POLL_MS = 5000;
const grid = document.querySelector("[data-live-grid]");
const lastIds = new Map(); // rollout → stream id, oldest first
const pendingChunks = new Map(); // rollout → chunks that arrived before its card was loaded
const cardsToFetch = new Set();
const transcripts = new WeakMap(); // card → its Transcript

function findCard(rollout) {
  return document.getElementById(`card-${rollout}`);
}

function recordChunkId(chunk) {
  lastIds.delete(chunk.r);
  // Rollouts that have ended are left out, which keeps the URL short.
  if (chunk.t !== "end") lastIds.set(chunk.r, chunk.id);
  if (lastIds.size > MAX_LAST_IDS) lastIds.delete(lastIds.keys().next().value);
}

function createTurn(role) {
  const element = document.createElement("div");
  element.className = role;
  return { element, words: element };
}

function getTranscript(card) {
  if (!transcripts.has(card))
    transcripts.set(card, new Transcript(card.querySelector("[data-reply-text]"), { createTurn }));
  return transcripts.get(card);
}

function showChunk(card, chunk) {
  getTranscript(card).apply(chunk);
  const text = card.querySelector("[data-reply-text]");
  text.scrollTop = text.scrollHeight;
  if ((chunk.v ?? null) !== null) card.querySelector("[data-version]").textContent = `v${chunk.v}`;
  if (["held", "freed", "edit", "started"].includes(chunk.t))
    card.classList.toggle("held", chunk.t === "held");
}

function countStreaming() {
  const count = grid.querySelectorAll("[data-state=sampling]").length;
  const element = document.querySelector("[data-streaming]");
  element.textContent = count ? `${count} ${count === 1 ? "reply" : "replies"} streaming · ` : "";
}

function onEnd(card, rollout) {
  card.querySelector(".caret")?.remove();
  card.classList.remove("held");
  card.dataset.state = "finished";
  card.classList.remove("sampling");
  card.classList.add("done");
  setTimeout(() => releaseStars(rollout), 300); // its row is committed right after its last chunk
  refreshRatings();
  countStreaming();
}

function applyChunk(chunk) {
  const card = findCard(chunk.r);
  if (!card) {
    if (!pendingChunks.has(chunk.r)) pendingChunks.set(chunk.r, []);
    pendingChunks.get(chunk.r).push(chunk);
    cardsToFetch.add(chunk.r);
    fetchCards();
  } else if (chunk.t === "end") onEnd(card, chunk.r);
  else showChunk(card, chunk);
}

// Return the oldest finished card that nobody uses, for a new card to replace. Returns null if the
// grid has room, undefined if all cards are in use.
function findReplaceableCard() {
  const cards = [...grid.querySelectorAll(CARD)];
  if (cards.length < Number(grid.dataset.maxCards)) return null;
  return cards
    .filter(
      (card) => card.dataset.state !== "sampling" && !card.matches(":hover, :focus-within, .sel"),
    )
    .sort((a, b) => a.dataset.rollout - b.dataset.rollout)[0];
}

function placeCard(card) {
  const replaced = findReplaceableCard();
  if (replaced === undefined) return; // all cards are in use
  card.classList.add("fresh");
  if (replaced) replaced.replaceWith(card);
  else grid.append(card);
  document.querySelector("[data-grid-empty]")?.setAttribute("hidden", "");
  const chunks = pendingChunks.get(Number(card.dataset.rollout)) ?? [];
  pendingChunks.delete(Number(card.dataset.rollout));
  if (card.dataset.state === "sampling") chunks.forEach(applyChunk);
  countStreaming();
}

async function fetchFragments(url, rollouts) {
  const query = rollouts.map((rollout) => `rollout=${rollout}`).join("&");
  const response = await fetchPart(`${url}?${query}`);
  if (!response) return [];
  // The fragment comes from our own server; model output in it is escaped.
  return [...new DOMParser().parseFromString(await response.text(), "text/html").body.children].map(
    (child) => document.importNode(child, true),
  );
}

const fetchCards = throttle(async () => {
  const requested = [...cardsToFetch];
  cardsToFetch.clear();
  const rollouts = requested.slice(-Number(grid.dataset.maxCards));
  const hasPlace = findReplaceableCard() !== undefined;
  if (rollouts.length && hasPlace)
    for (const card of await fetchFragments(grid.dataset.cards, rollouts))
      if (!findCard(card.dataset.rollout)) placeCard(card);
  requested.forEach(forgetEnded);
}, 400);

// Forget the chunks of a rollout that ended without a place in the grid. Those that still stream
// keep theirs, so that a card that becomes free shows their whole text.
function forgetEnded(rollout) {
  if (pendingChunks.get(rollout)?.at(-1).t === "end") pendingChunks.delete(rollout);
}

const refreshRatings = throttle(async () => {
  const unrated = [...grid.querySelectorAll(`${CARD}.done`)]
    .filter((card) => !card.querySelector(".chip"))
    .map((card) => card.dataset.rollout);
  if (!unrated.length) return;
  for (const ratings of await fetchFragments(grid.dataset.chips, unrated)) {
    const element = grid.querySelector(
      `[data-rollout-ratings="${ratings.dataset.rolloutRatings}"]`,
    );
    if (ratings.childElementCount) element?.replaceWith(ratings);
  }
}, RATINGS_POLL_MS);

// Whether a card lacks text that its chunks will not bring: some are lost, or none arrive.
function isIncomplete(card) {
  return card.dataset.state === "sampling"
    ? !lastIds.has(Number(card.dataset.rollout))
    : Boolean(transcripts.get(card)?.hasGaps);
}

// Replace incomplete cards by those of the server once their replies are complete: until then, the
// server has less of their text than the page.
const completeCards = throttle(async () => {
  const rollouts = [...grid.querySelectorAll(CARD)]
    .filter(isIncomplete)
    .map((card) => card.dataset.rollout);
  if (!rollouts.length || document.visibilityState !== "visible") return;
  for (const card of await fetchFragments(grid.dataset.cards, rollouts))
    if (card.dataset.state !== "sampling") replaceCard(card);
}, INCOMPLETE_POLL_MS);

function replaceCard(card) {
  const existing = findCard(card.dataset.rollout);
  if (!existing) return;
  const hadFocus = existing.contains(document.activeElement);
  card.classList.toggle("sel", existing.classList.contains("sel"));
  existing.replaceWith(card);
  if (hadFocus) card.focus({ preventScroll: true });
  releaseStars(Number(card.dataset.rollout));
  countStreaming();
}

function onFrame(frame) {
  for (const rollout of frame.snapshot_needed ?? []) lastIds.delete(rollout);
  for (const chunk of frame.chunks ?? []) {
    recordChunkId(chunk);
    applyChunk(chunk);
  }
}

function buildUrl() {
  const topics = grid.dataset.topics
    .split(",")
    .filter(Boolean)
    .map((topic) => `topic=${topic}`);
  const after = [...lastIds].map(([rollout, id]) => `${rollout}:${id}`).join(",");
  return `/ws/live/?${topics.join("&")}${after ? `&after=${after}` : ""}`;
}

const BUTTONS_BY_KEY = {
  o: "[data-opens-large]",
  x: "[data-stop]",
  e: "[data-edit]",
  t: "[data-write-turn]",
};

if (grid) {
  onPageKey((key, event) => handleCardKey(key, event, CARD), { repeats: true });
  onPageKey((key) => {
    if (!(key in BUTTONS_BY_KEY)) return false;
    selectedCard(CARD)?.querySelector(BUTTONS_BY_KEY[key])?.click();
    return true;
  });
}

async function stop(button) {
  const card = button.closest(CARD);
  const element = card.querySelector("[data-send-status]");
  button.disabled = true;
  const result = await steer(button.dataset.stop, "stop");
  if (result.state !== "done") {
    button.disabled = false;
    element.hidden = false;
    element.textContent = result.reason;
  }
}

grid?.addEventListener("click", (event) => {
  const button = event.target.closest("[data-stop]");
  if (button) stop(button);
});

// If all runs of the page have ended, it says so and links to runs that are live.
const ENDED_POLL_MS = 10_000;
const endedNotice = document.querySelector("[data-ended-url]");

async function refreshEndedNotice() {
  if (document.visibilityState !== "visible") return;
  const query = grid.dataset.topics
    .split(",")
    .map((topic) => `topic=${topic}`)
    .join("&");
  const response = await fetchPart(`${endedNotice.dataset.endedUrl}?${query}`);
  // The next poll tries again; the connection indicator shows that the server is away.
  if (!response) return;
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  if (endedNotice.textContent.trim() === parsed.body.textContent.trim()) return;
  endedNotice.replaceChildren(
    ...[...parsed.body.children].map((child) => document.importNode(child, true)),
  );
}

if (grid?.dataset.topics) {
  setInterval(refreshEndedNotice, ENDED_POLL_MS);
  countStreaming();
  subscribe(buildUrl, onFrame);
  setInterval(refreshRatings, RATINGS_POLL_MS);
  setInterval(completeCards, INCOMPLETE_POLL_MS);
}
