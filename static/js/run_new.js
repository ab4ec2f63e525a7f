// The form of a new run: the server checks it when the typing pauses, and renders the fields and
// the YAML in step.
import { filterFields } from "./run_new/field_search.js";
import { drawEditor } from "./run_new/yaml_editor.js";

const DEBOUNCE_MS = 400;
const form = document.getElementById("new-run");
let timer;
let revision = 0;
let checkedRevision = 0;
let openDetails = [];
let lastField; // the field that was edited last
let resetField; // the field that the next request resets to its default
// Whether there are changes to lose. Names and the run to compare with don't count.
let hasUnsaved = "unsaved" in form.dataset;
let isLeaving = false;

form.addEventListener("input", (event) => {
  if (!event.target.name) return; // search fields change nothing
  revision += 1;
  hasUnsaved ||= !["slug", "title", "against"].includes(event.target.name);
  lastField = event.target;
  clearTimeout(timer);
  timer = setTimeout(requestCheck, DEBOUNCE_MS);
});

function requestCheck() {
  checkedRevision = revision;
  htmx.trigger(form, "settled");
}

// "Back to default" submits the form without scripts; here it is sent with the next check.
form.addEventListener("click", (event) => {
  const button = event.target.closest("button[name=reset]");
  if (!button) return;
  event.preventDefault();
  resetField = button.value;
  revision += 1;
  hasUnsaved = true;
  lastField = undefined;
  clearTimeout(timer);
  requestCheck();
});

form.addEventListener("htmx:config:request", (event) => {
  if (resetField) event.detail.ctx.request.body.set("reset", resetField);
});

// Ignore the response to an older revision: it would restore what was typed before.
form.addEventListener("htmx:before:swap", (event) => {
  if (revision !== checkedRevision) event.preventDefault();
  openDetails = [...form.querySelectorAll("details[open]")].map((element) => element.id);
});

// Set each field to the value that the server rendered, even if it was changed before; but not the
// field in which the person is typing. Values of buttons stay.
form.addEventListener("htmx:after:swap", () => {
  // The server opens the sections with errors.
  for (const id of openDetails) document.getElementById(id)?.setAttribute("open", "");
  for (const field of form.querySelectorAll("input, select, textarea")) {
    if (field === lastField || !field.name) continue;
    if (field.type === "checkbox" || field.type === "radio") field.checked = field.defaultChecked;
    else if (field instanceof HTMLSelectElement)
      for (const option of field.options) option.selected = option.defaultSelected;
    else if (field.value !== field.defaultValue) field.value = field.defaultValue;
  }
  focusReset();
  markDisabledFields();
  filterFields();
  drawEditor();
});

// The reset button disappears with the reset, so move the focus to its field.
function focusReset() {
  if (!resetField) return;
  const field = form.querySelector(`[data-knob="${CSS.escape(resetField)}"]`);
  resetField = undefined;
  if (!form.contains(document.activeElement))
    field?.querySelector("input, select, textarea, summary")?.focus();
}

// Mark the fields of sections that are switched off.
function markDisabledFields() {
  const disabledSections = [
    ...form.querySelectorAll('.knob > label > input[type="checkbox"]:not(:checked)'),
  ].map((box) => `${box.name}.`);
  for (const knob of form.querySelectorAll("[data-knob]"))
    knob.toggleAttribute(
      "data-inactive",
      disabledSections.some((start) => knob.dataset.knob.startsWith(start)),
    );
}

document.addEventListener("change", (event) => {
  if (!event.target.matches('input[type="checkbox"]')) return;
  markDisabledFields();
  filterFields();
});
markDisabledFields();
filterFields();
drawEditor();

// Ask before a preset or a link discards what was typed.
const confirmDialog = document.getElementById("start-over");
form.addEventListener("click", (event) => {
  const preset = event.target.closest(".presets a");
  if (!preset || !hasUnsaved || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  confirmDialog.querySelector("[data-preset]").textContent = preset.querySelector("b").textContent;
  confirmDialog.querySelector("[data-replace-link]").href = preset.href;
  confirmDialog.showModal();
});
confirmDialog
  .querySelector("[data-replace-link]")
  .addEventListener("click", () => (isLeaving = true));
form.addEventListener("submit", () => (isLeaving = true));
window.addEventListener("pageshow", () => (isLeaving = false));
window.addEventListener(
  "beforeunload",
  (event) => hasUnsaved && !isLeaving && event.preventDefault(),
);
