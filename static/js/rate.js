// Stars: shown at once, kept in this browser until the server has them, sent once whatever happens.
import { Outbox, keptWords } from "./outbox.js";

const outbox = new Outbox("stars", onResult);

function showKept() {
  const line = document.querySelector("[data-outbox]");
  const due = outbox.waiting().filter((entry) => !entry.waits).length;
  if (!line) return;
  line.hidden = !due || !outbox.hasFailed;
  line.textContent = keptWords(due);
}

function say(rollout, words) {
  for (const place of document.querySelectorAll(`[data-rollout="${rollout}"] [data-kept]`)) {
    place.textContent = words;
    place.hidden = !words;
  }
}

export function show(rollout, stars) {
  for (const form of document.querySelectorAll(`[data-stars="${rollout}"]`))
    form.dataset.given = stars;
}

// Take these stars for this reply. A second press before the first was sent replaces it.
export function give(rollout, stars) {
  show(rollout, stars);
  const waits = isStreaming(rollout);
  for (const entry of outbox.waiting()) if (entry.rollout === rollout) outbox.retract(entry.uuid);
  if (waits) say(rollout, "sent when the reply is complete");
  const uuid = crypto.randomUUID();
  outbox.put({
    uuid,
    url: `/rate/${rollout}/`,
    form: { stars, client_uuid: uuid },
    rollout,
    stars,
    waits,
  });
}

function isStreaming(rollout) {
  return document.querySelector(`[data-rollout="${rollout}"][data-state="sampling"]`) !== null;
}

// The reply is complete now: stars that waited for it may go.
export function finished(rollout) {
  for (const entry of outbox.waiting())
    if (entry.rollout === rollout && entry.waits) outbox.release(entry);
}

function onResult(event) {
  showKept();
  if (event.kind === "answered") settle(event.entry.rollout, event.status, event.body);
  else if (event.kind === "signed-out")
    say(event.entry.rollout, "not sent: log in again to send it");
}

function settle(rollout, status, text) {
  if (status >= 400)
    return say(rollout, status === 404 ? "no longer available" : text.slice(0, 160));
  // The fragment is our own server's; the reply's text is never in it.
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("[data-judged]");
  for (const place of document.querySelectorAll(`[data-judged="${rollout}"]`))
    place.replaceWith(document.importNode(fresh, true));
  return say(rollout, "late" in fresh.dataset ? "saved, late" : "");
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-stars]");
  if (!form) return;
  event.preventDefault();
  give(Number(form.dataset.stars), Number(event.submitter?.value));
});

for (const entry of outbox.waiting()) {
  show(entry.rollout, entry.stars);
  // Nobody tells here of the end of a reply that does not stream on this page: the server says
  // whether it has come.
  if (entry.waits && !isStreaming(entry.rollout)) outbox.release(entry);
}
outbox.open();
showKept();
