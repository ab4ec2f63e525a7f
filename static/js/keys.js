// The only listener of keys that belong to a whole page. `g` then a letter goes somewhere, `/`
// searches, `?` shows the sheet; each page adds its own keys with onPageKey. A page that needs `g`
// for itself names another key in the body's data-go-key.
//
// A key belongs to the dialog, menu or field that has it when it goes down, whatever that does with
// it: a dialog that closes on a key does not pass the key on to the page beneath. A key held down
// stays where it was first pressed.
const GO_MS = 1500;
const PRESSED = ["radio", "checkbox", "button", "submit"]; // inputs that take no letters
const MENU = "details.menu[open]";
const owners = new WeakMap(); // keydown event → "dialog", "menu", "text" or "page"
const began = new Map(); // key that is down → its owner when it went down
const handlers = []; // { handle, repeats }, in the order in which they are asked
let goingUntil = 0;

export function isText(element) {
  const field = element.closest("input, textarea, select, [contenteditable]");
  return field !== null && !(field.localName === "input" && PRESSED.includes(field.type));
}

// A key as maps of keys name it.
export function keyOf(event) {
  if (event.key === " ") return "Space";
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

// handle(key, event) returns true when the key meant something. Repeats of a key held down reach it
// only with `repeats`.
export function onPageKey(handle, { repeats = false } = {}) {
  handlers.push({ handle, repeats });
}

// Keys of one dialog, outside of its text fields.
export function onDialogKey(dialog, handle) {
  dialog.addEventListener("keydown", (event) => {
    if (event.repeat || isModified(event) || isText(event.target)) return;
    if (handle(keyOf(event), event)) event.preventDefault();
  });
}

function ownerOf(target) {
  if (document.querySelector("dialog[open]")) return "dialog";
  if (document.querySelector(MENU)) return "menu";
  return isText(target) ? "text" : "page";
}

// Before anything else hears of the key, so that the answer does not depend on what a dialog or
// field does with it.
function assign(event) {
  const target = event.target instanceof Element ? event.target : document.body;
  const owner = ownerOf(target);
  const place = event.code || event.key;
  if (!event.repeat) began.set(place, owner);
  else if (owner !== (began.get(place) ?? owner) && event.key !== "Tab") {
    event.preventDefault();
    event.stopImmediatePropagation();
    return;
  }
  owners.set(event, owner);
}

// Shift is a modifier, too, except where it makes another character, as in `?`.
function isModified(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  const hasCase = event.key.toLowerCase() !== event.key.toUpperCase();
  return event.shiftKey && (hasCase || event.key.length > 1);
}

// Keys that the focused control itself answers to.
function isControls(target, key) {
  if (["Enter", "Space"].includes(key) && target.closest("button, a, summary")) return true;
  if (key === "Space") return target.matches("input");
  return key.startsWith("Arrow") && target.matches("input[type=radio]");
}

// The command palette. It opens at once, so that no key goes to the page while its script is
// fetched for the first use.
export async function showPalette() {
  const dialog = document.getElementById("palette");
  if (dialog.open) return dialog.close();
  dialog.querySelector("input").value = "";
  dialog.showModal();
  const { begin } = await import("./palette.js");
  begin();
}

function isForPalette(event) {
  const isAlone =
    (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && !event.repeat;
  const open = document.querySelector("dialog[open]");
  return isAlone && event.key.toLowerCase() === "k" && (!open || open.id === "palette");
}

function dispatch(event) {
  const owner = owners.get(event);
  if (!event.defaultPrevented && document.getElementById("palette") && isForPalette(event)) {
    event.preventDefault();
    showPalette();
    return;
  }
  if (event.defaultPrevented || isModified(event)) return;
  const key = keyOf(event);
  if (owner === "menu" && key === "Escape") return closeMenu(event);
  if (owner !== "page" || isControls(event.target, key)) return;
  const meant = handlers.some(
    ({ handle, repeats }) => (repeats || !event.repeat) && handle(key, event),
  );
  if (meant) event.preventDefault();
}

function closeMenu(event) {
  const menu = document.querySelector(MENU);
  menu.open = false;
  menu.querySelector("summary").focus();
  event.preventDefault();
}

function go(letter) {
  const link = [...document.querySelectorAll("[data-go]")].find(
    (item) => item.dataset.go === letter,
  );
  if (link) window.location.assign(link.href);
  return Boolean(link);
}

function search() {
  const field = document.querySelector("[data-search]");
  if (!field) return false;
  field.closest("details")?.setAttribute("open", "");
  field.focus();
  return true;
}

function showSheet() {
  document.querySelector("[data-keys-sheet]")?.showModal();
  return true;
}

// The frame's own keys come first: after `g` a letter means "go", not what the page does with it.
function frameKey(key) {
  if (goingUntil > performance.now()) {
    goingUntil = 0;
    return go(key);
  }
  if (key === (document.body.dataset.goKey ?? "g")) goingUntil = performance.now() + GO_MS;
  if (key === "?") return showSheet();
  return key === "/" && search();
}

handlers.unshift({ handle: frameKey, repeats: false });
window.addEventListener("keydown", assign, { capture: true });
window.addEventListener("keyup", (event) => began.delete(event.code || event.key), {
  capture: true,
});
window.addEventListener("blur", () => began.clear());
document.addEventListener("keydown", dispatch);
document.addEventListener("focusout", (event) => {
  const menu = event.target.closest?.(MENU);
  if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
});
