// The list of runs: metrics follow the runs while it is open, cell by cell, so that ticks, focus
// and the scroll stay where they are.
import { follow, throttled } from "./stream.js";
import { showHead } from "./ticks.js";

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
    if (old.innerHTML !== cell.innerHTML)
      old.replaceChildren(...document.importNode(cell, true).childNodes);
  }
  if (!fresh.dataset.topic) delete row.dataset.topic;
}

const refresh = throttled(async () => {
  const rows = atWork();
  if (!rows.length || document.visibilityState !== "visible") return;
  const answer = await fetch(
    `${box.dataset.now}?${rows.map((row) => `run=${row.dataset.run}`).join("&")}`,
  );
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(
    `<table><tbody>${await answer.text()}</tbody></table>`,
    "text/html",
  );
  page.querySelectorAll("tr[data-run]").forEach(take);
}, 2000);

// Ticks go along from page to page of this list, and end with it. Those of other pages are told,
// and sent with the form.
const KEPT = "runs-ticked";
const acts = document.getElementById("ticked");
// What was ticked is done; what is refused stays ticked.
if (document.querySelector(".note.success")) sessionStorage.removeItem(KEPT);
const kept = () => JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
// Neither back nor again.
const isAnew = performance.getEntriesByType("navigation")[0]?.type === "navigate";
const stays =
  !isAnew || (document.referrer && new URL(document.referrer).pathname === location.pathname);
let ticked = new Map(stays ? kept() : []);

function showTicks() {
  const boxes = new Map(
    [...document.querySelectorAll('input[type="checkbox"][name="run"]')].map((one) => [
      one.value,
      one,
    ]),
  );
  for (const [run, one] of boxes) one.checked = ticked.has(run);
  const away = [...ticked].filter(([run]) => !boxes.has(run));
  acts.querySelectorAll('input[type="hidden"][name="run"]').forEach((one) => one.remove());
  for (const [run] of away)
    acts.append(
      Object.assign(document.createElement("input"), { type: "hidden", name: "run", value: run }),
    );
  const words = acts.querySelector("[data-ticked]");
  words.dataset.ticked ||= words.textContent;
  words.textContent = ticked.size
    ? `${ticked.size} run${ticked.size === 1 ? "" : "s"} selected`
    : words.dataset.ticked;
  const elsewhere = acts.querySelector("[data-elsewhere]");
  elsewhere.textContent = away.length
    ? `${away.length} on other pages: ${away.map(([, name]) => name).join(", ")}`
    : "";
  elsewhere.title = elsewhere.textContent;
  acts.querySelector("[data-untick]").hidden = !ticked.size;
  acts.toggleAttribute("data-some", ticked.size > 0);
  document.querySelectorAll("table.runs").forEach(showHead);
  sessionStorage.setItem(KEPT, JSON.stringify([...ticked]));
}

if (acts) {
  showTicks();
  window.addEventListener("pageshow", () => {
    // As other pages of the list left them; and the browser's own memory of boxes does not count.
    ticked = new Map(kept());
    showTicks();
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.matches('[name="run"]')) return;
    if (target.checked) ticked.set(target.value, target.dataset.name);
    else ticked.delete(target.value);
    showTicks();
  });
  acts.querySelector("[data-untick]").addEventListener("click", () => {
    ticked.clear();
    showTicks();
  });
}

if (box) {
  const topics = atWork()
    .slice(0, FOLLOWED)
    .map((row) => `topic=${row.dataset.topic}`);
  // `at` comes with every connection: what was missed while it was away is fetched at once.
  if (topics.length)
    follow(
      () => `/ws/events/?${topics.join("&")}`,
      (frame) => (frame.events?.length || frame.at) && refresh(),
    );
  // People's shares and ages move without events, and so does what is beyond the first twenty.
  setInterval(refresh, SLOWEST_MS);
}
