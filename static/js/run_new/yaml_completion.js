// Autocompletion in the YAML of a new run: keys of the section at the cursor, and values that the
// form offers. Ctrl-Space opens the list, arrow keys select, Enter or Tab inserts, Escape closes.
const form = document.getElementById("new-run");
// Path of a section → its keys.
const KEYS = JSON.parse(document.getElementById("known-keys").textContent);
const MAX_SHOWN = 8;
let completions = [];
let selectedIndex = 0;
let prefix = ""; // the part of the word before the cursor

const list = () => document.getElementById("completions");

export function showCompletions(textarea, isExplicit = false) {
  const line = currentLine(textarea);
  const key = line.before.match(/^(\s*(?:- )*)([\w.-]*)$/);
  const value = line.before.match(/^(\s*(?:- )*)([\w.-]+):\s+([\w./-]*)$/);
  prefix = key?.[2] ?? value?.[3] ?? "";
  const isCompletable =
    (key || value) && line.after.trim() === "" && textarea.selectionStart === textarea.selectionEnd;
  if (!isCompletable || (!prefix && !isExplicit)) return close(textarea);
  const candidates = key
    ? keysAt(textarea, line, key[1])
    : valuesAt(pathOf(textarea, line, value[1], value[2]));
  completions = candidates
    .filter((candidate) => candidate.word.startsWith(prefix) && candidate.word !== prefix)
    .slice(0, MAX_SHOWN);
  selectedIndex = 0;
  if (!completions.length) return close(textarea);
  renderList(textarea, line);
}

function currentLine(textarea) {
  const rows = textarea.value.slice(0, textarea.selectionStart).split("\n");
  const after = textarea.value.slice(textarea.selectionStart).split("\n", 1)[0];
  return { number: rows.length - 1, before: rows.at(-1), after };
}

// Return the path of the section around a line: the nearest keys above it with less indentation.
function sectionOf(textarea, line, indent) {
  const path = [];
  let depth = indent.length;
  for (const lineText of textarea.value.split("\n").slice(0, line.number).reverse()) {
    const [, start, key] = lineText.match(/^(\s*(?:- )*)([\w.-]+):/) ?? [];
    if (key === undefined || start.length >= depth) continue;
    path.unshift(key);
    depth = start.length;
  }
  return path.join(".");
}

function pathOf(textarea, line, indent, key) {
  const section = sectionOf(textarea, line, indent);
  return section ? `${section}.${key}` : key;
}

function keysAt(textarea, line, indent) {
  const section = sectionOf(textarea, line, indent);
  return (KEYS[section] ?? []).map((word) => ({
    word,
    suffix: ": ",
    description: descriptionOf(section ? `${section}.${word}` : word),
  }));
}

const findField = (path) => form.querySelector(`[data-knob="${CSS.escape(path)}"]`);

function descriptionOf(path) {
  return (findField(path)?.querySelector(".help-text")?.textContent ?? "").trim();
}

// Return the values that the form offers for a field. `algorithm: grpo` stands for `algorithm:
// {name: grpo}`.
function valuesAt(path) {
  const field = findField(path) ?? findField(`${path}.name`);
  const inputs = field?.querySelectorAll("option, input[type=radio]") ?? [];
  const values = [...inputs].map((input) => input.value).filter(Boolean);
  return values.map((word) => ({ word, suffix: "", description: "" }));
}

function renderList(textarea, line) {
  const style = getComputedStyle(textarea);
  const listbox = list();
  listbox.replaceChildren(...completions.map(createOption));
  listbox.hidden = false;
  listbox.style.top = `${(line.number + 1) * parseFloat(style.lineHeight) + parseFloat(style.paddingTop) - textarea.scrollTop}px`;
  textarea.setAttribute("aria-controls", listbox.id);
  selectOption(textarea, 0);
}

function createOption({ word, description }, index) {
  const option = document.createElement("li");
  option.id = `completion-${index}`;
  option.setAttribute("role", "option");
  option.dataset.index = index;
  const label = document.createElement("b");
  label.textContent = word;
  const note = document.createElement("small");
  note.textContent = description;
  option.append(label, note);
  return option;
}

function selectOption(textarea, index) {
  selectedIndex = (index + completions.length) % completions.length;
  for (const option of list().children)
    option.setAttribute("aria-selected", Number(option.dataset.index) === selectedIndex);
  textarea.setAttribute("aria-activedescendant", `completion-${selectedIndex}`);
}

function close(textarea) {
  list().hidden = true;
  completions = [];
  textarea.removeAttribute("aria-activedescendant");
}

// Insert the selected completion as if it were typed, so that it can be undone.
function insertSelected(textarea) {
  const { word, suffix } = completions[selectedIndex];
  close(textarea);
  document.execCommand("insertText", false, word.slice(prefix.length) + suffix);
}

const KEY_ACTIONS = {
  ArrowDown: (textarea) => selectOption(textarea, selectedIndex + 1),
  ArrowUp: (textarea) => selectOption(textarea, selectedIndex - 1),
  Enter: insertSelected,
  Tab: insertSelected,
  Escape: close,
};

form.addEventListener("keydown", (event) => {
  const textarea = event.target;
  if (textarea.id !== "yaml" || event.isComposing) return;
  if (event.ctrlKey && event.key === " ") {
    event.preventDefault();
    showCompletions(textarea, true);
  } else if (completions.length && event.key in KEY_ACTIONS && !event.shiftKey) {
    event.preventDefault();
    KEY_ACTIONS[event.key](textarea);
  }
});
form.addEventListener("mousedown", (event) => {
  const option = event.target.closest("#completions li");
  if (!option) return;
  event.preventDefault(); // keep the cursor in the text
  selectedIndex = Number(option.dataset.index);
  insertSelected(document.getElementById("yaml"));
});
form.addEventListener("focusout", (event) => event.target.id === "yaml" && close(event.target));
