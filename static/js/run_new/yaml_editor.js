// The YAML editor of a new run: a text field with line numbers beside it and highlighted text
// behind it. Lines with errors are marked; keys and values are completed.
import { showCompletions } from "./yaml_completion.js";

const form = document.getElementById("new-run");
// A comment, a key, a string, or a number or keyword; the first alternative that matches counts.
const TOKENS =
  /(#.*$)|^([ \t]*(?:- )*)([\w.-]+)(?=:(?:\s|$))|("(?:[^"\\]|\\.)*"|'[^']*')|(?<=[\s[{,:-])(-?\d[\d.]*(?:e[+-]?\d+)?|true|false|null)(?=[\s,\]}]|$)/gi;

const editor = () => form.querySelector("[data-editor]");
const textarea = () => document.getElementById("yaml");

export function drawEditor() {
  const field = textarea();
  const errors = errorsByLine();
  editor().dataset.drawn = ""; // without scripts the text field shows its own text
  const lines = field.value.split("\n");
  editor()
    .querySelector(".gutter")
    .replaceChildren(...lines.map((_, index) => createLineNumber(index + 1, errors)));
  editor()
    .querySelector("pre")
    .replaceChildren(...lines.map((line, index) => highlightLine(line, errors.has(index + 1))));
  syncScroll();
}

// Return a map of line numbers to error messages.
function errorsByLine() {
  const errors = new Map();
  for (const item of form.querySelectorAll("#yaml-wrong [data-line]")) {
    const line = Number(item.dataset.line);
    errors.set(line, [...(errors.get(line) ?? []), item.textContent]);
  }
  return errors;
}

function createLineNumber(line, errors) {
  const number = document.createElement("span");
  number.textContent = line;
  if (errors.has(line)) {
    number.dataset.fieldError = "";
    number.title = errors.get(line).join("\n");
  }
  return number;
}

function highlightLine(line, isWrong) {
  const row = document.createElement("span");
  row.className = "row";
  if (isWrong) row.dataset.fieldError = "";
  let end = 0;
  for (const match of line.matchAll(TOKENS)) {
    const [token, comment, indent = "", key, text] = match;
    row.append(
      line.slice(end, match.index),
      indent,
      createToken(token.slice(indent.length), tokenKind(comment, key, text)),
    );
    end = match.index + token.length;
  }
  row.append(line.slice(end), "\n");
  return row;
}

function tokenKind(comment, key, text) {
  if (comment) return "comment";
  if (key) return "key";
  return text ? "text" : "value";
}

function createToken(field, kind) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = field;
  return span;
}

function syncScroll() {
  const { scrollTop, scrollLeft } = textarea();
  editor().querySelector(".gutter").scrollTop = scrollTop;
  editor().querySelector("pre").scrollTo(scrollLeft, scrollTop);
}

function goToLine(line) {
  const field = textarea();
  const start =
    field.value
      .split("\n")
      .slice(0, line - 1)
      .join("\n").length + (line > 1 ? 1 : 0);
  field.focus();
  field.setSelectionRange(start, start);
  field.scrollTop = (line - 3) * parseFloat(getComputedStyle(field).lineHeight);
}

form.addEventListener("input", (event) => {
  if (event.target !== textarea()) return;
  drawEditor();
  showCompletions(textarea());
});
form.addEventListener("scroll", (event) => event.target === textarea() && syncScroll(), true);
form.addEventListener("click", (event) => {
  const item = event.target.closest("#yaml-wrong a")?.closest("[data-line]");
  if (!item) return;
  event.preventDefault();
  goToLine(Number(item.dataset.line));
});
