// What was said, kept in this browser until the server has it. One key for each entry: two tabs never overwrite each other,
// and the client uuid makes an entry that both send one rating.
const USER = document.body.dataset.user;
const OUT = `rate:${USER}:out:`;
const DRAFT = `rate:${USER}:draft:`;
const TAB = crypto.randomUUID();
const ORPHANED_MS = 20_000; // an entry of another tab that is older than this was left behind
const DRAFT_KEPT_MS = 7 * 24 * 3600 * 1000;
const LONGEST_PAUSE_MS = 30_000;
const AGAIN = [408, 429, 500, 502, 503, 504];
let hear = () => {};
let sending = null; // uuid of the entry on its way
let failures = 0;
let timer = 0;
let halted = false; // signed out: nothing goes until the page is loaded anew

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

// Returns false when this browser has no room left.
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

function keysOf(prefix) {
  return Object.keys(localStorage).filter((key) => key.startsWith(prefix)).sort();
}

export function waiting() {
  return keysOf(OUT).map(read).filter(Boolean);
}

// Keep it, then send it. What does not fit into this browser's store is sent from memory alone.
const unkept = [];
export function put(entry) {
  const full = { ...entry, tab: TAB, at: Date.now() };
  if (!write(keyOf(full), full)) unkept.push(full);
  hear({ kind: "kept" });
  send();
}

function keyOf(entry) {
  return `${OUT}${String(entry.at).padStart(15, "0")}:${entry.uuid}`;
}

// Take an entry back before it was sent. False: it is on its way, or gone.
export function retract(uuid) {
  const entry = everything().find((one) => one.uuid === uuid);
  if (!entry || sending === uuid) return false;
  forget(entry);
  return true;
}

export function isOnItsWay(uuid) {
  return everything().some((one) => one.uuid === uuid);
}

function everything() {
  return [...waiting(), ...unkept];
}

function forget(entry) {
  localStorage.removeItem(keyOf(entry));
  const place = unkept.findIndex((one) => one.uuid === entry.uuid);
  if (place >= 0) unkept.splice(place, 1);
  hear({ kind: "kept" });
}

function next() {
  return everything().find((entry) => entry.tab === TAB || Date.now() - entry.at > ORPHANED_MS);
}

export async function send() {
  if (sending || halted) return;
  clearTimeout(timer);
  for (let entry = next(); entry && !halted; entry = next()) {
    sending = entry.uuid;
    const went = await sendOne(entry);
    sending = null;
    if (!went) return;
  }
}

// True when the server has spoken about it.
async function sendOne(entry) {
  let answer;
  try {
    answer = await post(entry.url, entry.body);
  } catch {
    return later();
  }
  if (AGAIN.includes(answer.status)) return later();
  if (answer.status === 401 || answer.status === 403) {
    halted = true;
    hear({ kind: "signed-out", entry });
    return false;
  }
  failures = 0;
  const said = await answer.json().catch(() => ({}));
  forget(entry);
  hear({ kind: "answered", entry, status: answer.status, said });
  return true;
}

function later() {
  failures += 1;
  hear({ kind: "failed" });
  timer = setTimeout(send, Math.min(LONGEST_PAUSE_MS, 500 * 2 ** failures) * (0.5 + Math.random() / 2));
  return false;
}

export function hasFailed() {
  return failures > 0 || halted;
}

// Another tab may have signed in again: its cookie is newer than what this page was given.
function token() {
  const name = document.querySelector("[data-csrf-cookie]")?.dataset.csrfCookie;
  const cookie = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return cookie ? decodeURIComponent(cookie.slice(name.length + 1)) : document.body.dataset.csrf;
}

export function post(url, body, extra = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token() };
  return fetch(url, { method: "POST", headers, body: JSON.stringify(body), redirect: "error", ...extra });
}

export function listen(heard) {
  hear = heard;
  window.addEventListener("online", () => {
    failures = 0;
    send();
  });
  setTimeout(send, ORPHANED_MS);
  for (const key of keysOf(DRAFT)) if (!(read(key)?.at > Date.now() - DRAFT_KEPT_MS)) localStorage.removeItem(key);
  send();
}

export function draftOf(item) {
  return read(DRAFT + item);
}

export function keepDraft(item, draft) {
  return write(DRAFT + item, { ...draft, at: Date.now() });
}

export function dropDraft(item) {
  localStorage.removeItem(DRAFT + item);
}
