// The list of runs: figures follow the runs while it is open, cell by cell, so that ticks, focus and the scroll stay where they are.
import { follow, throttled } from "./stream.js";

const FOLLOWED = 20; // topics to a socket
const SLOWEST_MS = 15000;
const box = document.querySelector("[data-now]");
const atWork = () => [...document.querySelectorAll("tr[data-topic]")];

function take(fresh) {
  const row = document.querySelector(`tr[data-run="${fresh.dataset.run}"]`);
  if (!row) return;
  for (const cell of fresh.querySelectorAll("[data-live]")) {
    const old = row.querySelector(`[data-live="${cell.dataset.live}"]`);
    // Our own server's fragment; what people wrote in it is escaped text.
    if (old.innerHTML !== cell.innerHTML) old.replaceChildren(...document.importNode(cell, true).childNodes);
  }
  if (!fresh.dataset.topic) delete row.dataset.topic;
}

const refresh = throttled(async () => {
  const rows = atWork();
  if (!rows.length || document.visibilityState !== "visible") return;
  const answer = await fetch(`${box.dataset.now}?${rows.map((row) => `run=${row.dataset.run}`).join("&")}`);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(`<table><tbody>${await answer.text()}</tbody></table>`, "text/html");
  page.querySelectorAll("tr[data-run]").forEach(take);
}, 2000);

function countTicks() {
  const count = document.querySelectorAll('[name="run"]:checked').length;
  const words = document.querySelector("[data-ticked]");
  if (words && count) words.textContent = `${count} run${count === 1 ? "" : "s"} ticked`;
}

if (box) {
  const topics = atWork().slice(0, FOLLOWED).map((row) => `topic=${row.dataset.topic}`);
  // `at` comes with every connection: what was missed while it was away is fetched at once.
  if (topics.length) follow(() => `/ws/events/?${topics.join("&")}`, (frame) => (frame.events?.length || frame.at) && refresh());
  setInterval(refresh, SLOWEST_MS); // people's shares and ages move without events, and so does what is beyond the first twenty
}
document.addEventListener("change", (event) => event.target.matches('[name="run"]') && countTicks());
