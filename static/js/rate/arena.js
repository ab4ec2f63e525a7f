// The judging page of a blind arena: one pair on the stage, the next ready behind it. A vote shows
// as taken at once; the outbox sees to it that the server has it once.
import { onPageKey } from "../keys.js";
import { Outbox, post } from "../outbox.js";
import * as difference from "./difference.js";

const AHEAD = 2; // pairs ready behind the one on the stage
const MOST_BACK = 10;
const WORDS_SHOWN_MS = 6000;
const LOOK_AGAIN_MS = 4000;
const VOTES = { first: "left", second: "right", tie: "tie", both_bad: "bad" };
const WORDS = { left: "A is better", right: "B is better", tie: "a tie", bad: "both are bad" };
const desk = document.querySelector("[data-desk]");
const find = (selector, root = desk) => root.querySelector(selector);
const stage = find("[data-stage]");
const keys = JSON.parse(desk.dataset.keys); // key → action, as on the rating page
const outbox = new Outbox(`arena-${desk.dataset.arena}`, onResult);
const ahead = []; // articles
const HISTORY = `arena:${document.body.dataset.user}:${desk.dataset.arena}:history`;
// { uuid, pair, choice, back }, the newest last.
const decided = JSON.parse(sessionStorage.getItem(HISTORY) ?? "[]");
const switches = new WeakMap(); // article → what turns its differences, made once
const left = new Map(); // uuid → its article, while this page lives
const of = Number(desk.dataset.of);
let today = Number(desk.dataset.today) + outbox.everything().length;
let own = Number(desk.dataset.own) + outbox.everything().length;
let shown = null;
let turnDifference = null; // shows or hides the differing words of the pair on the stage
let spent = 0; // ms in a visible tab
let since = 0;
let fetching = false;
let isAnswered = true;
let fading = 0;
let looking = 0;

/* words */

function say(words, canUndo = false) {
  find("[data-words]").textContent = words;
  find("[data-back]").hidden = !canUndo;
  clearTimeout(fading);
  fading = setTimeout(() => {
    find("[data-words]").textContent = "";
    find("[data-back]").hidden = true;
  }, WORDS_SHOWN_MS);
}

function trouble(words, ...more) {
  const place = find("[data-trouble]");
  place.replaceChildren(words, ...more);
  place.hidden = !words;
}

function count(by = 0) {
  today = Math.max(0, today + by);
  own = Math.max(0, own + by);
  const rest = Math.max(0, of - own);
  find("[data-counts]").textContent =
    `${today.toLocaleString("en")} today · ${own.toLocaleString("en")} total · ${rest.toLocaleString("en")} remaining`;
}

function showOutbox() {
  const many = outbox.waiting().length;
  const line = find("[data-outbox]");
  line.hidden = !many || !outbox.hasFailed;
  line.textContent = `${many} vote${many === 1 ? "" : "s"} not sent yet. Your browser sends ${many === 1 ? "it" : "them"} when the server responds.`;
}

function showWaiting() {
  const line = find("[data-waiting]", stage);
  if (line)
    line.textContent =
      outbox.hasFailed || !isAnswered ? "Waiting for the server…" : "Loading the next pair…";
}

function signedOut() {
  const link = Object.assign(document.createElement("a"), {
    className: "link",
    textContent: "Log in",
    href: `${desk.dataset.login}?next=${encodeURIComponent(location.pathname)}`,
  });
  trouble(
    "You are signed out. Your browser keeps your votes and sends them after you log in. ",
    link,
  );
}

/* the stage */

// Our own server's fragments; model output in them is escaped, and nothing in them runs.
async function read(answer) {
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const taken = (selector) =>
    [...parsed.querySelectorAll(selector)].map((one) => document.importNode(one, true));
  return { pairs: taken("[data-pair]"), end: taken("[data-nothing]")[0] };
}

function put(article) {
  shown = article;
  turnDifference = switches.get(article) ?? difference.begin(article);
  switches.set(article, turnDifference);
  spent = 0;
  since = document.hidden ? 0 : performance.now();
  stage.replaceChildren(article);
  find("[data-deck]").hidden = false;
  if (window.scrollY) window.scrollTo(0, 0);
  article.focus({ preventScroll: true });
}

function advance() {
  shown = null;
  const next = ahead.shift();
  if (next) put(next);
  else {
    stage.replaceChildren(
      Object.assign(document.createElement("p"), { className: "waiting quiet" }),
    );
    stage.firstChild.dataset.waiting = "";
    showWaiting();
    find("[data-deck]").hidden = true;
  }
  fill();
}

function held() {
  const here = [shown, ...ahead].filter(Boolean).map((article) => article.dataset.pair);
  return [...here, ...outbox.everything().map((entry) => entry.body.pair)];
}

async function fill() {
  const missing = AHEAD - ahead.length + (shown ? 0 : 1);
  if (fetching || missing < 1) return;
  fetching = true;
  clearTimeout(looking);
  const heldPairs = held();
  try {
    const query = new URLSearchParams({ count: missing, held: heldPairs.slice(0, 40).join(",") });
    const answer = await fetch(`${desk.dataset.next}?${query}`, { redirect: "error" });
    if (answer.status === 401) return signedOut();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    isAnswered = true;
    const { pairs, end } = await read(answer);
    const present = new Set([...heldPairs, ...held(), ...decided.map((one) => one.pair)]);
    for (const article of pairs.filter((one) => !present.has(one.dataset.pair))) {
      if (shown) ahead.push(article);
      else put(article);
    }
    if (end && !shown) showEnd(end);
  } catch {
    isAnswered = false;
    looking = setTimeout(fill, LOOK_AGAIN_MS);
  } finally {
    fetching = false;
    showWaiting();
  }
}

function showEnd(end) {
  stage.replaceChildren(end);
  find("[data-deck]").hidden = true;
}

/* voting, taking back */

function keep() {
  for (const old of decided.splice(0, Math.max(0, decided.length - MOST_BACK)))
    left.delete(old.uuid);
  sessionStorage.setItem(HISTORY, JSON.stringify(decided));
}

function vote(choice) {
  if (!shown) return;
  const uuid = crypto.randomUUID();
  const pair = shown.dataset.pair;
  const body = {
    client_uuid: uuid,
    pair,
    choice,
    milliseconds: Math.round(spent + (since ? performance.now() - since : 0)),
  };
  decided.push({ uuid, pair, choice });
  left.set(uuid, shown);
  keep();
  count(1);
  trouble("");
  outbox.put({ uuid, url: desk.dataset.vote, body });
  advance();
  say(`Saved: ${WORDS[choice]}.`, true);
}

// The last vote does not stand; its pair is on the stage again.
function bringBack(last, article) {
  decided.splice(decided.indexOf(last), 1);
  left.delete(last.uuid);
  keep();
  count(-1);
  if (shown) ahead.unshift(shown);
  put(article);
  say(`Undone: ${WORDS[last.choice]}.`);
}

async function back() {
  const last = decided.at(-1);
  if (!last) return say("Nothing to undo.");
  if (left.has(last.uuid) && outbox.retract(last.uuid)) return bringBack(last, left.get(last.uuid));
  if (outbox.isOnItsWay(last.uuid))
    return outbox.hasFailed
      ? say("The vote is being sent. Undo it when the server responds.")
      : setTimeout(back, 50);
  last.back ??= crypto.randomUUID(); // asked twice it is taken back once
  keep();
  let answer;
  try {
    answer = await post(desk.dataset.undo, { client_uuid: last.uuid, new_uuid: last.back });
  } catch {
    return say("The server is not responding, so the vote can’t be undone now.");
  }
  if (answer.status === 401) return signedOut();
  if (answer.ok) return bringBack(last, (await read(answer)).pairs[0]);
  decided.splice(decided.indexOf(last), 1);
  keep();
  const { detail } = await answer.json().catch(() => ({}));
  return say(detail ?? "The vote couldn’t be undone.");
}

/* what the server says */

function onResult(event) {
  showOutbox();
  showWaiting();
  if (event.kind === "signed-out") signedOut();
  else if (event.kind === "answered") answered(event.entry, event.status, event.body);
}

function answered(entry, status, body) {
  if (status < 300) return fill();
  const place = decided.findIndex((one) => one.uuid === entry.uuid);
  if (place >= 0) decided.splice(place, 1);
  left.delete(entry.uuid);
  keep();
  count(-1);
  const why = Object.entries(body.fields ?? {})
    .map(([name, words]) => `${name} ${words}`)
    .join("; ");
  trouble(body.detail ?? `A vote was not saved: ${why || `the server answered ${status}`}.`);
  if (body.code === "closed") {
    ahead.length = 0;
    shown = null;
  }
  return fill();
}

/* keys and pointer */

onPageKey((key) => {
  const action = keys[key];
  if (action === "undo") back();
  else if (action in VOTES) vote(VOTES[action]);
  else if (action === "difference" && shown) turnDifference();
  else return false;
  return true;
});

desk.addEventListener("click", (event) => {
  const choice = event.target.closest("[data-choice]")?.dataset.choice;
  if (choice) vote(choice);
  else if (event.target.closest("[data-back]")) back();
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden && since) [spent, since] = [spent + performance.now() - since, 0];
  else if (!document.hidden && shown && !since) since = performance.now();
});

count();
outbox.open();
showOutbox();
fill();
