// The voting page of a blind arena: shows one pair at a time and prefetches the next. A vote is
// shown as saved immediately; the outbox makes sure that the server saves it exactly once.
import { onPageKey } from "../keys.js";
import { Outbox, post, randomUuid } from "../outbox.js";
import { initPairDiff } from "./pair_diff.js";

const PREFETCH_COUNT = 2; // pairs to load ahead
const MAX_UNDO = 10;
const MESSAGE_MS = 6000;
const RETRY_MS = 4000;
const CHOICE_BY_ACTION = { first: "left", second: "right", tie: "tie", both_bad: "bad" };
const CHOICE_LABELS = {
  left: "A is better",
  right: "B is better",
  tie: "a tie",
  bad: "both are bad",
};
const page = document.querySelector("[data-rating-page]");
const find = (selector, root = page) => root.querySelector(selector);
const stage = find("[data-stage]");
const keys = JSON.parse(page.dataset.keys); // key → action, as on the rating page
const outbox = new Outbox(`arena-${page.dataset.arena}`, handleOutboxEvent);
const queue = []; // articles of the next pairs
const HISTORY_KEY = `arena:${document.body.dataset.user}:${page.dataset.arena}:history`;
// { uuid, pair, choice, undoUuid }, oldest first.
const votes = JSON.parse(sessionStorage.getItem(HISTORY_KEY) ?? "[]");
const diffToggles = new WeakMap(); // article → function that toggles its marked differences
const votedArticles = new Map(); // uuid → the article of the vote, until the page is left
const pairCount = Number(page.dataset.pairCount);
let today = Number(page.dataset.today) + outbox.allEntries().length;
let total = Number(page.dataset.totalVotes) + outbox.allEntries().length;
let current = null;
let toggleDiff = null; // toggles the marked differences of the current pair
let pastMs = 0; // ms for which the current pair was visible, before visibleSince
let visibleSince = 0;
let isFetching = false;
let isReachable = true;
let isUndoing = false;
let messageTimer = 0;
let retryTimer = 0;

/* messages */

function showMessage(message, canUndo = false) {
  find("[data-arena-status]").textContent = message;
  find("[data-undo-button]").hidden = !canUndo;
  clearTimeout(messageTimer);
  messageTimer = setTimeout(() => {
    find("[data-arena-status]").textContent = "";
    find("[data-undo-button]").hidden = true;
  }, MESSAGE_MS);
}

function showError(message, ...nodes) {
  const box = find("[data-error]");
  box.replaceChildren(message, ...nodes);
  box.hidden = !message;
}

function updateCounts(delta = 0) {
  today = Math.max(0, today + delta);
  total = Math.max(0, total + delta);
  const remaining = Math.max(0, pairCount - total);
  find("[data-counts]").textContent =
    `${today.toLocaleString("en")} today · ${total.toLocaleString("en")} total · ${remaining.toLocaleString("en")} remaining`;
}

function showUnsent() {
  const count = outbox.waiting().length;
  const line = find("[data-outbox]");
  line.hidden = !count || !outbox.hasFailed;
  line.textContent = `${count} vote${count === 1 ? "" : "s"} not sent yet. Your browser sends ${count === 1 ? "it" : "them"} when the server responds.`;
}

function showWaitingMessage() {
  const line = find("[data-waiting]", stage);
  if (line)
    line.textContent =
      outbox.hasFailed || !isReachable ? "Waiting for the server…" : "Loading the next pair…";
}

function showSignedOut() {
  const link = Object.assign(document.createElement("a"), {
    className: "link",
    textContent: "Log in",
    href: `${page.dataset.login}?next=${encodeURIComponent(location.pathname)}`,
  });
  showError(
    "You are signed out. Your browser keeps your votes and sends them after you log in. ",
    link,
  );
}

/* the current pair */

// The fragments come from our own server; model output in them is escaped, and no scripts run.
async function parseFragment(response) {
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const select = (selector) =>
    [...parsed.querySelectorAll(selector)].map((element) => document.importNode(element, true));
  return { pairs: select("[data-pair]"), end: select("[data-queue-end]")[0] };
}

function showPair(article) {
  current = article;
  toggleDiff = diffToggles.get(article) ?? initPairDiff(article);
  diffToggles.set(article, toggleDiff);
  pastMs = 0;
  visibleSince = document.hidden ? 0 : performance.now();
  stage.replaceChildren(article);
  find("[data-rating-bar]").hidden = false;
  if (window.scrollY) window.scrollTo(0, 0);
  article.focus({ preventScroll: true });
}

function showNext() {
  current = null;
  const next = queue.shift();
  if (next) showPair(next);
  else {
    stage.replaceChildren(
      Object.assign(document.createElement("p"), { className: "waiting quiet" }),
    );
    stage.firstChild.dataset.waiting = "";
    showWaitingMessage();
    find("[data-rating-bar]").hidden = true;
  }
  fetchPairs();
}

function heldPairs() {
  const onPage = [current, ...queue].filter(Boolean).map((article) => article.dataset.pair);
  return [...onPage, ...outbox.allEntries().map((entry) => entry.body.pair)];
}

async function fetchPairs() {
  const missing = PREFETCH_COUNT - queue.length + (current ? 0 : 1);
  if (isFetching || missing < 1) return;
  isFetching = true;
  clearTimeout(retryTimer);
  const requested = heldPairs();
  try {
    const query = new URLSearchParams({ count: missing, held: requested.slice(0, 40).join(",") });
    const response = await fetch(`${page.dataset.next}?${query}`, { redirect: "error" });
    if (response.status === 401) return showSignedOut();
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    isReachable = true;
    const { pairs, end } = await parseFragment(response);
    const known = new Set([...requested, ...heldPairs(), ...votes.map((vote) => vote.pair)]);
    for (const article of pairs.filter((pair) => !known.has(pair.dataset.pair))) {
      if (current) queue.push(article);
      else showPair(article);
    }
    if (end && !current) showEnd(end);
  } catch {
    isReachable = false;
    retryTimer = setTimeout(fetchPairs, RETRY_MS);
  } finally {
    isFetching = false;
    showWaitingMessage();
  }
}

function showEnd(end) {
  stage.replaceChildren(end);
  find("[data-rating-bar]").hidden = true;
}

/* voting and undoing */

function saveVotes() {
  for (const old of votes.splice(0, Math.max(0, votes.length - MAX_UNDO)))
    votedArticles.delete(old.uuid);
  sessionStorage.setItem(HISTORY_KEY, JSON.stringify(votes));
}

function sendVote(choice) {
  if (!current) return;
  const uuid = randomUuid();
  const pair = current.dataset.pair;
  const body = {
    client_uuid: uuid,
    pair,
    choice,
    milliseconds: Math.round(pastMs + (visibleSince ? performance.now() - visibleSince : 0)),
  };
  votes.push({ uuid, pair, choice });
  votedArticles.set(uuid, current);
  saveVotes();
  updateCounts(1);
  showError("");
  outbox.add({ uuid, url: page.dataset.vote, body });
  showNext();
  showMessage(`Saved: ${CHOICE_LABELS[choice]}.`, true);
}

// Show the pair of an undone vote again.
function restorePair(last, article) {
  votes.splice(votes.indexOf(last), 1);
  votedArticles.delete(last.uuid);
  saveVotes();
  updateCounts(-1);
  if (current) queue.unshift(current);
  showPair(article);
  showMessage(`Undone: ${CHOICE_LABELS[last.choice]}.`);
}

// Undo the last vote. A second undo waits for the first, which would be undone again otherwise.
async function undo() {
  if (isUndoing) return setTimeout(undo, 50);
  isUndoing = true;
  return undoLast().finally(() => (isUndoing = false));
}

async function undoLast() {
  const last = votes.at(-1);
  if (!last) return showMessage("Nothing to undo.");
  if (votedArticles.has(last.uuid) && outbox.retract(last.uuid))
    return restorePair(last, votedArticles.get(last.uuid));
  if (outbox.isPending(last.uuid))
    return outbox.hasFailed
      ? showMessage("The vote is being sent. Undo it when the server responds.")
      : setTimeout(undo, 50);
  last.undoUuid ??= randomUuid(); // the same uuid when sent again, so that it is undone once
  saveVotes();
  let response;
  try {
    response = await post(page.dataset.undo, { client_uuid: last.uuid, new_uuid: last.undoUuid });
  } catch {
    return showMessage("The server is not responding, so the vote can’t be undone now.");
  }
  if (response.status === 401) return showSignedOut();
  if (response.ok) return restorePair(last, (await parseFragment(response)).pairs[0]);
  votes.splice(votes.indexOf(last), 1);
  saveVotes();
  const { detail } = await response.json().catch(() => ({}));
  return showMessage(detail ?? "The vote couldn’t be undone.");
}

/* responses */

function handleOutboxEvent(event) {
  showUnsent();
  showWaitingMessage();
  if (event.kind === "signed-out") showSignedOut();
  else if (event.kind === "answered") handleResponse(event.entry, event.status, event.body);
}

function handleResponse(entry, status, body) {
  if (status < 300) return fetchPairs();
  const index = votes.findIndex((vote) => vote.uuid === entry.uuid);
  if (index >= 0) votes.splice(index, 1);
  votedArticles.delete(entry.uuid);
  saveVotes();
  updateCounts(-1);
  const reasons = Object.entries(body.fields ?? {})
    .map(([name, message]) => `${name} ${message}`)
    .join("; ");
  showError(body.detail ?? `A vote was not saved: ${reasons || `the server answered ${status}`}.`);
  if (body.code === "closed") {
    queue.length = 0;
    current = null;
  }
  return fetchPairs();
}

/* keys and pointer */

onPageKey((key) => {
  const action = keys[key];
  if (action === "undo") undo();
  else if (action in CHOICE_BY_ACTION) sendVote(CHOICE_BY_ACTION[action]);
  else if (action === "difference" && current) toggleDiff();
  else return false;
  return true;
});

page.addEventListener("click", (event) => {
  const choice = event.target.closest("[data-choice]")?.dataset.choice;
  // The second click of a double click would be a vote about the next pair, which nobody has read.
  const isDoubleClick = event.detail > 1;
  if (choice && !isDoubleClick) sendVote(choice);
  else if (event.target.closest("[data-undo-button]")) undo();
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden && visibleSince)
    [pastMs, visibleSince] = [pastMs + performance.now() - visibleSince, 0];
  else if (!document.hidden && current && !visibleSince) visibleSince = performance.now();
});

updateCounts();
outbox.start();
showUnsent();
fetchPairs();
