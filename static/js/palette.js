// The command palette: pages, runs, people and settings by words. Loaded when it is opened for the
// first time.
const PAUSE_MS = 150; // of typing, before the server is asked
const dialog = document.getElementById("palette");
const input = dialog.querySelector("input");
const list = dialog.querySelector('[role="listbox"]');
const status = dialog.querySelector('[role="status"]');
let waiting = 0;
let asking = null;
let listed = ""; // the words of which the list shows the results

const options = () => [...list.querySelectorAll('[role="option"]')];
const selected = () => list.querySelector('[aria-selected="true"]');

function select(option) {
  selected()?.setAttribute("aria-selected", "false");
  if (!option) return input.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  input.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

function move(by) {
  const all = options();
  if (all.length) select(all[(all.indexOf(selected()) + by + all.length) % all.length]);
}

// The run whose page is open, as project/run.
function runHere() {
  const [, first, project, run] = location.pathname.split("/");
  return first === "runs" && run ? `${project}/${run}` : "";
}

async function ask() {
  clearTimeout(waiting);
  asking?.abort();
  asking = new AbortController();
  const words = input.value;
  const query = new URLSearchParams({ words, run: runHere() });
  try {
    const answer = await fetch(`${dialog.dataset.rows}?${query}`, { signal: asking.signal });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    // Our own server's fragment, in which names are escaped text.
    list.innerHTML = await answer.text();
    listed = words;
    options().forEach((option, place) => (option.id = `palette-${place}`));
    select(options()[0]);
    status.textContent = `${options().length} results`;
  } catch (error) {
    if (error.name === "AbortError") return;
    list.replaceChildren();
    select(null);
    status.textContent = "The search failed. Check your connection, or reload the page.";
  }
}

function later() {
  clearTimeout(waiting);
  waiting = setTimeout(ask, PAUSE_MS);
}

function open(link) {
  dialog.close();
  location.assign(link.href);
}

// What is listed may be of fewer words than were typed: then the server is asked first.
async function enter() {
  if (input.value !== listed) await ask();
  if (dialog.open && selected() && input.value === listed) open(selected());
}

const ACTS = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: enter };

input.addEventListener("input", later);
input.addEventListener("keydown", (event) => {
  if (event.isComposing || !ACTS[event.key]) return;
  event.preventDefault();
  ACTS[event.key]();
});
list.addEventListener("click", (event) => {
  const option = event.target.closest('[role="option"]');
  if (!option || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(option);
});
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("close", () => {
  clearTimeout(waiting);
  asking?.abort();
});

// The dialog is open, and somebody may have typed into it already.
export function begin() {
  select(null);
  ask();
}
