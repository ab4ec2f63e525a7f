// A new run: what is typed is checked by the server when the typing stops, and the form and the
// YAML are drawn again in step.
import { filterFields } from "./run_new/finding.js";
import { drawEditor } from "./run_new/editor.js";

const REST_MS = 400;
const form = document.getElementById("new-run");
let timer;
let typed = 0;
let asked = 0;
let unfolded = [];
let touched; // the field in which somebody typed last
let resetting; // the address that goes back to its default with the next request
// Something but names and what to compare with, which go along or are nothing to lose.
let unsaved = "typed" in form.dataset;
let leaving = false;

form.addEventListener("input", (event) => {
  if (!event.target.name) return; // the searches change nothing
  typed += 1;
  unsaved ||= !["slug", "title", "against"].includes(event.target.name);
  touched = event.target;
  clearTimeout(timer);
  timer = setTimeout(ask, REST_MS);
});

function ask() {
  asked = typed;
  htmx.trigger(form, "settled");
}

// "Back to default" submits the form where there is no script; here it goes along with the next
// check.
form.addEventListener("click", (event) => {
  const button = event.target.closest("button[name=reset]");
  if (!button) return;
  event.preventDefault();
  resetting = button.value;
  typed += 1;
  unsaved = true;
  touched = undefined;
  clearTimeout(timer);
  ask();
});

form.addEventListener("htmx:config:request", (event) => {
  if (resetting) event.detail.ctx.request.body.set("reset", resetting);
});

// An answer to what has changed since is left alone: it would put back what was typed before.
form.addEventListener("htmx:before:swap", (event) => {
  if (typed !== asked) event.preventDefault();
  unfolded = [...form.querySelectorAll("details[open]")].map((part) => part.id);
});

// What the server has drawn counts, also where a box or a list was touched before; not where
// somebody is just typing. Only fields that a person fills in are reset: a button's value says what
// it does.
form.addEventListener("htmx:after:swap", () => {
  // What is wrong is unfolded by the server.
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  for (const field of form.querySelectorAll("input, select, textarea")) {
    if (field === touched || !field.name) continue;
    if (field.type === "checkbox" || field.type === "radio") field.checked = field.defaultChecked;
    else if (field instanceof HTMLSelectElement)
      for (const option of field.options) option.selected = option.defaultSelected;
    else if (field.value !== field.defaultValue) field.value = field.defaultValue;
  }
  focusReset();
  fold();
  filterFields();
  drawEditor();
});

// The button is gone once its field is back at the default: the keyboard goes on at the field.
function focusReset() {
  if (!resetting) return;
  const field = form.querySelector(`[data-knob="${CSS.escape(resetting)}"]`);
  resetting = undefined;
  if (!form.contains(document.activeElement))
    field?.querySelector("input, select, textarea, summary")?.focus();
}

// Fields of a section whose switch is off.
function fold() {
  const off = [
    ...form.querySelectorAll('.knob > label > input[type="checkbox"]:not(:checked)'),
  ].map((box) => `${box.name}.`);
  for (const knob of form.querySelectorAll("[data-knob]"))
    knob.toggleAttribute(
      "data-off",
      off.some((start) => knob.dataset.knob.startsWith(start)),
    );
}

document.addEventListener("change", (event) => {
  if (!event.target.matches('input[type="checkbox"]')) return;
  fold();
  filterFields();
});
fold();
filterFields();
drawEditor();

// What somebody typed is replaced by no card, and left by no link, unasked.
const startOver = document.getElementById("start-over");
form.addEventListener("click", (event) => {
  const card = event.target.closest(".presets a");
  if (!card || !unsaved || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  startOver.querySelector("[data-preset]").textContent = card.querySelector("b").textContent;
  startOver.querySelector("[data-replaces]").href = card.href;
  startOver.showModal();
});
startOver.querySelector("[data-replaces]").addEventListener("click", () => (leaving = true));
form.addEventListener("submit", () => (leaving = true));
window.addEventListener("pageshow", () => (leaving = false));
window.addEventListener("beforeunload", (event) => unsaved && !leaving && event.preventDefault());
