// Completion in the YAML of a new run: keys of the section in which the caret stands, and values
// that the form offers. Ctrl-Space opens the list, arrows choose, Enter or Tab takes, Escape
// closes.
const form = document.getElementById("new-run");
// Address of a section → its keys.
const KEYS = JSON.parse(document.getElementById("known-keys").textContent);
const SHOWN = 8;
let choices = [];
let chosen = 0;
let written = ""; // the beginning of a word that a choice replaces

const list = () => document.getElementById("completions");

export function offer(area, asked = false) {
  const line = lineAt(area);
  const key = line.before.match(/^(\s*(?:- )*)([\w.-]*)$/);
  const value = line.before.match(/^(\s*(?:- )*)([\w.-]+):\s+([\w./-]*)$/);
  written = key?.[2] ?? value?.[3] ?? "";
  const isPlace =
    (key || value) && line.after.trim() === "" && area.selectionStart === area.selectionEnd;
  if (!isPlace || (!written && !asked)) return close(area);
  const known = key
    ? keysAt(area, line, key[1])
    : valuesAt(addressOf(area, line, value[1], value[2]));
  choices = known
    .filter((one) => one.word.startsWith(written) && one.word !== written)
    .slice(0, SHOWN);
  chosen = 0;
  if (!choices.length) return close(area);
  draw(area, line);
}

function lineAt(area) {
  const rows = area.value.slice(0, area.selectionStart).split("\n");
  const after = area.value.slice(area.selectionStart).split("\n", 1)[0];
  return { number: rows.length - 1, before: rows.at(-1), after };
}

// Sections around a line: the closest keys above it that stand further left.
function sectionOf(area, line, indent) {
  const path = [];
  let depth = indent.length;
  for (const row of area.value.split("\n").slice(0, line.number).reverse()) {
    const [, start, key] = row.match(/^(\s*(?:- )*)([\w.-]+):/) ?? [];
    if (key === undefined || start.length >= depth) continue;
    path.unshift(key);
    depth = start.length;
  }
  return path.join(".");
}

function addressOf(area, line, indent, key) {
  const section = sectionOf(area, line, indent);
  return section ? `${section}.${key}` : key;
}

function keysAt(area, line, indent) {
  const section = sectionOf(area, line, indent);
  return (KEYS[section] ?? []).map((word) => ({
    word,
    ends: ": ",
    why: whyOf(section ? `${section}.${word}` : word),
  }));
}

const knobAt = (address) => form.querySelector(`[data-knob="${CSS.escape(address)}"]`);

function whyOf(address) {
  return (knobAt(address)?.querySelector(".why")?.textContent ?? "").trim();
}

// Choices that the form has for a field; `algorithm: grpo` stands for `algorithm: {name: grpo}`.
function valuesAt(address) {
  const knob = knobAt(address) ?? knobAt(`${address}.name`);
  const inputs = knob?.querySelectorAll("option, input[type=radio]") ?? [];
  const words = [...inputs].map((input) => input.value).filter(Boolean);
  return words.map((word) => ({ word, ends: "", why: "" }));
}

function draw(area, line) {
  const style = getComputedStyle(area);
  const box = list();
  box.replaceChildren(...choices.map(option));
  box.hidden = false;
  box.style.top = `${(line.number + 1) * parseFloat(style.lineHeight) + parseFloat(style.paddingTop) - area.scrollTop}px`;
  area.setAttribute("aria-controls", box.id);
  choose(area, 0);
}

function option({ word, why }, index) {
  const item = document.createElement("li");
  item.id = `completion-${index}`;
  item.setAttribute("role", "option");
  item.dataset.index = index;
  const name = document.createElement("b");
  name.textContent = word;
  const words = document.createElement("small");
  words.textContent = why;
  item.append(name, words);
  return item;
}

function choose(area, index) {
  chosen = (index + choices.length) % choices.length;
  for (const item of list().children)
    item.setAttribute("aria-selected", Number(item.dataset.index) === chosen);
  area.setAttribute("aria-activedescendant", `completion-${chosen}`);
}

function close(area) {
  list().hidden = true;
  choices = [];
  area.removeAttribute("aria-activedescendant");
}

// As if it were typed, so that it can be undone.
function take(area) {
  const { word, ends } = choices[chosen];
  close(area);
  document.execCommand("insertText", false, word.slice(written.length) + ends);
}

const DO = {
  ArrowDown: (area) => choose(area, chosen + 1),
  ArrowUp: (area) => choose(area, chosen - 1),
  Enter: take,
  Tab: take,
  Escape: close,
};

form.addEventListener("keydown", (event) => {
  const area = event.target;
  if (area.id !== "yaml") return;
  if (event.ctrlKey && event.key === " ") {
    event.preventDefault();
    offer(area, true);
  } else if (choices.length && event.key in DO && !event.shiftKey) {
    event.preventDefault();
    DO[event.key](area);
  }
});
form.addEventListener("mousedown", (event) => {
  const item = event.target.closest("#completions li");
  if (!item) return;
  event.preventDefault(); // the caret stays
  chosen = Number(item.dataset.index);
  take(document.getElementById("yaml"));
});
form.addEventListener("focusout", (event) => event.target.id === "yaml" && close(event.target));
