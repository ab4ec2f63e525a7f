// A new run: what is typed is judged by the server when the hand rests, and the form and the YAML are drawn again in step.
const REST_MS = 400;
const form = document.getElementById("new-run");
let timer;
let typed = 0;
let asked = 0;
let unfolded = [];
let touched; // the field in which somebody typed last
let unsaved = "typed" in form.dataset; // something but names and what to compare with, which go along or are nothing to lose
let leaving = false;

form.addEventListener("input", (event) => {
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

// An answer to what has changed since is left alone: it would put back what was typed before.
form.addEventListener("htmx:before:swap", (event) => {
  if (typed !== asked) event.preventDefault();
  unfolded = [...form.querySelectorAll("details[open]")].map((part) => part.id);
});

// What the server has drawn counts, also where a box or a list was touched before; not where somebody is just typing.
// Only fields that a person fills in are reset: a button's value says what it does.
form.addEventListener("htmx:after:swap", () => {
  for (const id of unfolded) document.getElementById(id).open = true; // what is wrong is unfolded by the server
  for (const field of form.querySelectorAll("input, select, textarea")) {
    if (field === touched || !field.name) continue;
    if (field.type === "checkbox" || field.type === "radio") field.checked = field.defaultChecked;
    else if (field instanceof HTMLSelectElement) for (const option of field.options) option.selected = option.defaultSelected;
    else if (field.value !== field.defaultValue) field.value = field.defaultValue;
  }
  fold();
});

// Fields of a section whose switch is off.
function fold() {
  const off = [...form.querySelectorAll('.knob > label > input[type="checkbox"]:not(:checked)')].map((box) => `${box.name}.`);
  for (const knob of form.querySelectorAll("[data-knob]")) knob.toggleAttribute("data-off", off.some((start) => knob.dataset.knob.startsWith(start)));
}

document.addEventListener("change", (event) => event.target.matches('input[type="checkbox"]') && fold());
fold();

// What somebody typed is replaced by no card, and left by no link, unasked.
const anew = document.getElementById("begin-anew");
form.addEventListener("click", (event) => {
  const card = event.target.closest(".presets a");
  if (!card || !unsaved || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  anew.querySelector("[data-preset]").textContent = card.querySelector("b").textContent;
  anew.querySelector("[data-replaces]").href = card.href;
  anew.showModal();
});
anew.querySelector("[data-replaces]").addEventListener("click", () => (leaving = true));
form.addEventListener("submit", () => (leaving = true));
window.addEventListener("pageshow", () => (leaving = false));
window.addEventListener("beforeunload", (event) => unsaved && !leaving && event.preventDefault());
