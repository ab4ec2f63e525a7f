// The list of runs: updates its metrics cell by cell, so that selection, focus and scroll position
// stay; and keeps the selection across pages of the list.
import { subscribe, throttle } from "./stream.js";
import { updateHeader } from "./row_selection.js";
import { fetchPart } from "./site.js";

const MAX_TOPICS = 20; // topics of one WebSocket
const POLL_MS = 15000;
const list = document.querySelector("[data-refresh-url]");
const activeRows = () => [...document.querySelectorAll("tr[data-topic]")];

function updateRow(updated) {
  const row = document.querySelector(`tr[data-run="${updated.dataset.run}"]`);
  if (!row) return;
  for (const newCell of updated.querySelectorAll("[data-live]")) {
    const cell = row.querySelector(`[data-live="${newCell.dataset.live}"]`);
    // The fragment comes from our own server; text that people wrote is escaped.
    if (cell.innerHTML !== newCell.innerHTML)
      cell.replaceChildren(...document.importNode(newCell, true).childNodes);
  }
  if (!updated.dataset.topic) delete row.dataset.topic;
}

const refresh = throttle(async () => {
  const rows = activeRows();
  if (!rows.length || document.visibilityState !== "visible") return;
  const response = await fetchPart(
    `${list.dataset.refreshUrl}?${rows.map((row) => `run=${row.dataset.run}`).join("&")}`,
  );
  if (!response) return; // the connection indicator shows that the server is away
  const parsed = new DOMParser().parseFromString(
    `<table><tbody>${await response.text()}</tbody></table>`,
    "text/html",
  );
  parsed.querySelectorAll("tr[data-run]").forEach(updateRow);
}, 2000);

// The selection is kept across pages of this list, and cleared when the person leaves it. Selected
// runs of other pages are named, and sent with the form.
const SELECTION_KEY = "runs-ticked";
const form = document.getElementById("selected-runs");
// The action succeeded. After a refusal, the runs stay selected.
if (document.querySelector(".note.success")) sessionStorage.removeItem(SELECTION_KEY);
const readSelection = () => JSON.parse(sessionStorage.getItem(SELECTION_KEY) ?? "[]");
// Not a reload, and not the back button.
const isNavigation = performance.getEntriesByType("navigation")[0]?.type === "navigate";
const keepsSelection =
  !isNavigation || (document.referrer && new URL(document.referrer).pathname === location.pathname);
let selected = new Map(keepsSelection ? readSelection() : []);

// Show which runs are selected, here and on other pages, and store the selection.
function showSelection() {
  const boxes = new Map(
    [...document.querySelectorAll('input[type="checkbox"][name="run"]')].map((box) => [
      box.value,
      box,
    ]),
  );
  for (const [run, box] of boxes) box.checked = selected.has(run);
  const onOtherPages = [...selected].filter(([run]) => !boxes.has(run));
  form.querySelectorAll('input[type="hidden"][name="run"]').forEach((box) => box.remove());
  for (const [run] of onOtherPages)
    form.append(
      Object.assign(document.createElement("input"), { type: "hidden", name: "run", value: run }),
    );
  const label = form.querySelector("[data-selection-label]");
  label.dataset.selectionLabel ||= label.textContent;
  label.textContent = selected.size
    ? `${selected.size} run${selected.size === 1 ? "" : "s"} selected`
    : label.dataset.selectionLabel;
  const otherPages = form.querySelector("[data-other-pages]");
  otherPages.textContent = onOtherPages.length
    ? `${onOtherPages.length} on other pages: ${onOtherPages.map(([, name]) => name).join(", ")}`
    : "";
  otherPages.title = otherPages.textContent;
  form.querySelector("[data-clear-selection]").hidden = !selected.size;
  form.toggleAttribute("data-has-selection", selected.size > 0);
  document.querySelectorAll("table.runs").forEach(updateHeader);
  sessionStorage.setItem(SELECTION_KEY, JSON.stringify([...selected]));
}

if (form) {
  showSelection();
  window.addEventListener("pageshow", () => {
    // Other pages of the list may have changed the selection, and the browser may have restored
    // older checkboxes.
    selected = new Map(readSelection());
    showSelection();
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.matches('[name="run"]')) return;
    if (target.checked) selected.set(target.value, target.dataset.name);
    else selected.delete(target.value);
    showSelection();
  });
  form.querySelector("[data-clear-selection]").addEventListener("click", () => {
    selected.clear();
    showSelection();
  });
}

if (list) {
  const topics = activeRows()
    .slice(0, MAX_TOPICS)
    .map((row) => `topic=${row.dataset.topic}`);
  // Each connection starts with `at`: refresh, because events may have been missed.
  if (topics.length)
    subscribe(
      () => `/ws/events/?${topics.join("&")}`,
      (frame) => (frame.events?.length || frame.at) && refresh(),
    );
  // Shares of human ratings and ages change without events, and only the first runs are subscribed
  // to.
  setInterval(refresh, POLL_MS);
}
