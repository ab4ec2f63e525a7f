// The command palette: finds pages, runs, people and settings. It is loaded when it is opened for
// the first time.
const DEBOUNCE_MS = 150; // after the last key, before a request is sent
const dialog = document.getElementById("palette");
const input = dialog.querySelector("input");
const list = dialog.querySelector('[role="listbox"]');
const status = dialog.querySelector('[role="status"]');
let timer = 0;
let abortController = null;
let listedQuery = ""; // the query whose results are listed

const options = () => [...list.querySelectorAll('[role="option"]')];
const selected = () => list.querySelector('[aria-selected="true"]');

function select(option) {
  selected()?.setAttribute("aria-selected", "false");
  if (!option) return input.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  input.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

function move(delta) {
  const all = options();
  if (all.length) select(all[(all.indexOf(selected()) + delta + all.length) % all.length]);
}

// Return the run of the current page, as project/run.
function currentRun() {
  const [, first, project, run] = location.pathname.split("/");
  return first === "runs" && run ? `${project}/${run}` : "";
}

async function search() {
  clearTimeout(timer);
  abortController?.abort();
  abortController = new AbortController();
  const text = input.value;
  const query = new URLSearchParams({ words: text, run: currentRun() });
  try {
    const response = await fetch(`${dialog.dataset.rows}?${query}`, {
      signal: abortController.signal,
    });
    if (!response.ok || response.redirected) throw new Error(String(response.status));
    // The fragment comes from our own server; names in it are escaped.
    list.innerHTML = await response.text();
    listedQuery = text;
    options().forEach((option, index) => (option.id = `palette-${index}`));
    select(options()[0]);
    status.textContent = `${options().length} results`;
  } catch (error) {
    if (error.name === "AbortError") return;
    list.replaceChildren();
    select(null);
    status.textContent = "The search failed. Check your connection, or reload the page.";
  }
}

function searchLater() {
  clearTimeout(timer);
  timer = setTimeout(search, DEBOUNCE_MS);
}

function open(link) {
  dialog.close();
  location.assign(link.href);
}

// Open the selected result. If the results are of an older query, search again first.
async function openSelected() {
  if (input.value !== listedQuery) await search();
  if (dialog.open && selected() && input.value === listedQuery) open(selected());
}

const KEY_ACTIONS = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: openSelected };

input.addEventListener("input", searchLater);
input.addEventListener("keydown", (event) => {
  if (event.isComposing || !KEY_ACTIONS[event.key]) return;
  event.preventDefault();
  KEY_ACTIONS[event.key]();
});
list.addEventListener("click", (event) => {
  const option = event.target.closest('[role="option"]');
  if (!option || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(option);
});
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("close", () => {
  clearTimeout(timer);
  abortController?.abort();
});

// Start with an open dialog, into which the person may have typed already.
export function start() {
  select(null);
  search();
}
