// Star ratings of replies: shown immediately, and kept in the browser until the server has saved
// them. Each is saved exactly once.
import { Outbox, randomUuid, unsentMessage } from "./outbox.js";

const outbox = new Outbox("stars", handleOutboxEvent);

function showUnsent() {
  const line = document.querySelector("[data-outbox]");
  const count = outbox.waiting().filter((entry) => !entry.waits).length;
  if (!line) return;
  line.hidden = !count || !outbox.hasFailed;
  line.textContent = unsentMessage(count);
}

function showStatus(rollout, message) {
  for (const element of document.querySelectorAll(
    `[data-rollout="${rollout}"] [data-send-status]`,
  )) {
    element.textContent = message;
    element.hidden = !message;
  }
}

function showStars(rollout, stars) {
  for (const form of document.querySelectorAll(`[data-stars="${rollout}"]`))
    form.dataset.starCount = stars;
}

// Rate a reply. A second rating before the first was sent replaces it.
export function giveStars(rollout, stars) {
  showStars(rollout, stars);
  const waits = isStreaming(rollout);
  for (const entry of outbox.waiting()) if (entry.rollout === rollout) outbox.retract(entry.uuid);
  if (waits) showStatus(rollout, "sent when the reply is complete");
  const uuid = randomUuid();
  outbox.add({
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

// Send the stars that waited for the end of a reply.
export function releaseStars(rollout) {
  for (const entry of outbox.waiting())
    if (entry.rollout === rollout && entry.waits) outbox.release(entry);
}

function handleOutboxEvent(event) {
  showUnsent();
  if (event.kind === "answered") showResult(event.entry.rollout, event.status, event.body);
  else if (event.kind === "signed-out")
    showStatus(event.entry.rollout, "not sent: log in again to send it");
}

function showResult(rollout, status, text) {
  if (status >= 400)
    return showStatus(rollout, status === 404 ? "no longer available" : text.slice(0, 160));
  // The fragment comes from our own server, and never contains the reply's text.
  const updated = new DOMParser()
    .parseFromString(text, "text/html")
    .querySelector("[data-rollout-ratings]");
  for (const element of document.querySelectorAll(`[data-rollout-ratings="${rollout}"]`))
    element.replaceWith(document.importNode(updated, true));
  return showStatus(rollout, "late" in updated.dataset ? "saved, late" : "");
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-stars]");
  if (!form) return;
  event.preventDefault();
  giveStars(Number(form.dataset.stars), Number(event.submitter?.value));
});

for (const entry of outbox.waiting()) {
  showStars(entry.rollout, entry.stars);
  // No event announces the end of a reply that doesn't stream on this page. The server answers
  // whether it is complete.
  if (entry.waits && !isStreaming(entry.rollout)) outbox.release(entry);
}
outbox.start();
showUnsent();
