// Stars: shown at once, kept in this browser until the server has them, sent once whatever happens.
const BOX = "ratings-to-send";
let sending = false;
let failures = 0;

function kept() {
  try {
    return JSON.parse(localStorage.getItem(BOX) ?? "[]");
  } catch {
    return [];
  }
}

function keep(items) {
  localStorage.setItem(BOX, JSON.stringify(items));
  showKept(items);
}

function showKept(items) {
  const waiting = items.filter((item) => item.failed).length;
  const line = document.querySelector("[data-outbox]");
  if (line) {
    line.hidden = waiting === 0;
    line.textContent = `${waiting} rating${waiting === 1 ? "" : "s"} kept in this browser, will be sent as soon as the server answers.`;
  }
}

function say(rollout, words) {
  for (const place of document.querySelectorAll(`[data-rollout="${rollout}"] [data-kept]`)) {
    place.textContent = words;
    place.hidden = !words;
  }
}

export function show(rollout, stars) {
  for (const form of document.querySelectorAll(`[data-stars="${rollout}"]`)) form.dataset.given = stars;
}

// Take these stars for this reply. A second press before the first was sent replaces it.
export function give(rollout, stars) {
  show(rollout, stars);
  const unfinished = isStreaming(rollout);
  const others = kept().filter((item) => item.rollout !== rollout);
  keep([...others, { rollout, stars, uuid: crypto.randomUUID(), at: Date.now(), unfinished, user: userName() }]);
  if (unfinished) say(rollout, "sent when it ends");
  send();
}

function isStreaming(rollout) {
  return document.querySelector(`[data-rollout="${rollout}"][data-state="sampling"]`) !== null;
}

// The reply is complete now: stars that waited for it may go.
export function finished(rollout) {
  const items = kept();
  const mine = items.filter((item) => item.rollout === rollout && item.unfinished);
  if (!mine.length) return;
  for (const item of mine) item.unfinished = false;
  keep(items);
  send();
}

function userName() {
  return document.body.dataset.user;
}

export async function send() {
  if (sending) return;
  sending = true;
  try {
    for (let item = nextToSend(); item; item = nextToSend()) if (!(await sendOne(item))) break;
  } finally {
    sending = false;
  }
}

function nextToSend() {
  return kept().find((item) => !item.unfinished && item.user === userName());
}

async function sendOne(item) {
  const body = new URLSearchParams({ stars: item.stars, client_uuid: item.uuid });
  const headers = { "X-CSRFToken": document.body.dataset.csrf, "X-Requested-With": "fetch" };
  let answer;
  try {
    answer = await fetch(`/rate/${item.rollout}/`, { method: "POST", body, headers, redirect: "error" });
  } catch {
    return later(item);
  }
  if (answer.status >= 500 || answer.status === 429 || answer.status === 403) return later(item);
  if (answer.status === 409 && answer.headers.get("X-Retry") === "when-finished") return later(item);
  failures = 0;
  forget(item);
  await settle(item, answer);
  return true;
}

async function settle(item, answer) {
  const text = await answer.text();
  if (!answer.ok) return say(item.rollout, answer.status === 404 ? "not there any more" : text.slice(0, 160));
  // The fragment is our own server's; the reply's text is never in it.
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("[data-judged]");
  for (const place of document.querySelectorAll(`[data-judged="${item.rollout}"]`)) place.replaceWith(document.importNode(fresh, true));
  say(item.rollout, "late" in fresh.dataset ? "kept, came late" : "");
}

function forget(item) {
  keep(kept().filter((other) => other.uuid !== item.uuid));
}

function later(item) {
  failures += 1;
  keep(kept().map((other) => (other.uuid === item.uuid ? { ...other, failed: true } : other)));
  setTimeout(send, Math.min(30000, 1000 * 2 ** failures) * (0.5 + Math.random() / 2));
  return false;
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-stars]");
  if (!form) return;
  event.preventDefault();
  give(Number(form.dataset.stars), Number(event.submitter?.value));
});
window.addEventListener("online", send);

for (const item of kept()) show(item.rollout, item.stars);
// Nobody tells here of the end of a reply that does not stream on this page: the server says whether it has come.
localStorage.setItem(BOX, JSON.stringify(kept().map((item) => ({ ...item, unfinished: item.unfinished && isStreaming(item.rollout) }))));
showKept(kept());
send();
