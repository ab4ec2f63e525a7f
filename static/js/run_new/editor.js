// The YAML of a new run: a text field with line numbers beside it and the same text in colors
// behind it. Errors are marked at their lines; keys and values are completed as in the form.
import { offer } from "./completing.js";

const form = document.getElementById("new-run");
// A comment, a key, a text, a number or a word with a meaning; the first that fits counts.
const PARTS =
  /(#.*$)|^([ \t]*(?:- )*)([\w.-]+)(?=:(?:\s|$))|("(?:[^"\\]|\\.)*"|'[^']*')|(?<=[\s[{,:-])(-?\d[\d.]*(?:e[+-]?\d+)?|true|false|null)(?=[\s,\]}]|$)/gi;

const editor = () => form.querySelector("[data-editor]");
const area = () => document.getElementById("yaml");

export function drawEditor() {
  const text = area();
  const wrong = faults();
  editor().dataset.drawn = ""; // without a script the text field shows its own text
  const lines = text.value.split("\n");
  editor()
    .querySelector(".gutter")
    .replaceChildren(...lines.map((_, index) => numbered(index + 1, wrong)));
  editor()
    .querySelector("pre")
    .replaceChildren(...lines.map((line, index) => colored(line, wrong.has(index + 1))));
  follow();
}

// Line → what is wrong there.
function faults() {
  const byLine = new Map();
  for (const item of form.querySelectorAll("#yaml-wrong [data-line]")) {
    const line = Number(item.dataset.line);
    byLine.set(line, [...(byLine.get(line) ?? []), item.textContent]);
  }
  return byLine;
}

function numbered(line, wrong) {
  const number = document.createElement("span");
  number.textContent = line;
  if (wrong.has(line)) {
    number.dataset.wrong = "";
    number.title = wrong.get(line).join("\n");
  }
  return number;
}

function colored(line, isWrong) {
  const row = document.createElement("span");
  row.className = "row";
  if (isWrong) row.dataset.wrong = "";
  let end = 0;
  for (const match of line.matchAll(PARTS)) {
    const [whole, comment, indent = "", key, text] = match;
    row.append(
      line.slice(end, match.index),
      indent,
      marked(whole.slice(indent.length), kindOf(comment, key, text)),
    );
    end = match.index + whole.length;
  }
  row.append(line.slice(end), "\n");
  return row;
}

function kindOf(comment, key, text) {
  if (comment) return "comment";
  if (key) return "key";
  return text ? "text" : "value";
}

function marked(text, kind) {
  const part = document.createElement("span");
  part.className = kind;
  part.textContent = text;
  return part;
}

function follow() {
  const { scrollTop, scrollLeft } = area();
  editor().querySelector(".gutter").scrollTop = scrollTop;
  editor().querySelector("pre").scrollTo(scrollLeft, scrollTop);
}

function goTo(line) {
  const text = area();
  const start =
    text.value
      .split("\n")
      .slice(0, line - 1)
      .join("\n").length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start);
  text.scrollTop = (line - 3) * parseFloat(getComputedStyle(text).lineHeight);
}

form.addEventListener("input", (event) => {
  if (event.target !== area()) return;
  drawEditor();
  offer(area());
});
form.addEventListener("scroll", (event) => event.target === area() && follow(), true);
form.addEventListener("click", (event) => {
  const item = event.target.closest("#yaml-wrong a")?.closest("[data-line]");
  if (!item) return;
  event.preventDefault();
  goTo(Number(item.dataset.line));
});
