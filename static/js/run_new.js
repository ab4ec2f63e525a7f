// A new run: what is typed is judged by the server when the hand rests, and the form and the YAML are drawn again in step.
const REST_MS = 400;
const form = document.getElementById("new-run");
let timer;
let typed = 0;
let asked = 0;

form.addEventListener("input", () => {
  typed += 1;
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
});

// What the server has drawn is what counts, also where a box or a list was touched before; not where somebody is just typing.
form.addEventListener("htmx:after:swap", () => {
  for (const field of form.elements) {
    if (field === document.activeElement || !field.name) continue;
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
