// Keyboard shortcuts. This is the only listener for keys of a whole page: `g` and a letter open
// another page, `/` searches, `?` lists the shortcuts, and each page adds its own keys with
// onPageKey. A page that needs `g` itself names another key in the body's data-go-key. A key
// belongs to the dialog, menu or field that had the focus when it was pressed: if a dialog closes
// on a key, the page below doesn't receive it. Repeats of a key held down stay with their first
// owner.
const GO_TIMEOUT_MS = 1500;
const BUTTON_INPUTS = ["radio", "checkbox", "button", "submit"]; // inputs without text
const MENU = "details.menu[open]";
const owners = new WeakMap(); // keydown event → "dialog", "menu", "text" or "page"
const firstOwners = new Map(); // key that is down → its owner when it was pressed
const handlers = []; // { handler, repeats }, in the order in which they are called
let goDeadline = 0;

export function isText(element) {
  const field = element.closest("input, textarea, select, [contenteditable]");
  return field !== null && !(field.localName === "input" && BUTTON_INPUTS.includes(field.type));
}

// Return the name of a key as it is written in shortcuts. On a layout without Latin letters, it is
// the letter that the key has on a Latin layout.
function keyOf(event) {
  if (event.key === " ") return "Space";
  const letter = /^\p{L}$/u.test(event.key) && !/^\p{Script=Latin}$/u.test(event.key);
  if (letter && /^Key[A-Z]$/.test(event.code)) return event.code.slice(3).toLowerCase();
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

// Call handler(key, event) for keys of the page; it returns true if it handled the key. It receives
// repeats of a key held down only with `repeats`.
export function onPageKey(handler, { repeats = false } = {}) {
  handlers.push({ handler, repeats });
}

// Call handler(key, event) for keys of a dialog, except in its text fields.
export function onDialogKey(dialog, handler) {
  dialog.addEventListener("keydown", (event) => {
    if (event.repeat || isModified(event) || isText(event.target)) return;
    if (handler(keyOf(event), event)) event.preventDefault();
  });
}

function ownerOf(target) {
  if (document.querySelector("dialog[open]")) return "dialog";
  if (document.querySelector(MENU)) return "menu";
  return isText(target) ? "text" : "page";
}

// Record the owner of a key before other listeners run, because they may close the dialog or move
// the focus.
function assignOwner(event) {
  const target = event.target instanceof Element ? event.target : document.body;
  const owner = ownerOf(target);
  const code = event.code || event.key;
  if (!event.repeat) firstOwners.set(code, owner);
  else if (owner !== (firstOwners.get(code) ?? owner) && event.key !== "Tab") {
    event.preventDefault();
    event.stopImmediatePropagation();
    return;
  }
  owners.set(event, owner);
}

// Shift counts as a modifier unless it produces another character, as in `?`.
function isModified(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  const hasCase = event.key.toLowerCase() !== event.key.toUpperCase();
  return event.shiftKey && (hasCase || event.key.length > 1);
}

// Whether the focused control itself reacts to the key.
function belongsToControl(target, key) {
  if (["Enter", "Space"].includes(key) && target.closest("button, a, summary")) return true;
  if (key === "Space") return target.matches("input");
  return key.startsWith("Arrow") && target.matches("input[type=radio]");
}

// Open the command palette. It opens before its script is loaded, so that no key goes to the page
// in the meantime.
export async function showPalette() {
  const dialog = document.getElementById("palette");
  if (dialog.open) return dialog.close();
  dialog.querySelector("input").value = "";
  dialog.showModal();
  const { start } = await import("./palette.js");
  start();
}

function isForPalette(event) {
  const isOnlyModifier =
    (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && !event.repeat;
  const dialog = document.querySelector("dialog[open]");
  return isOnlyModifier && keyOf(event) === "k" && (!dialog || dialog.id === "palette");
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
  if (owner !== "page" || belongsToControl(event.target, key)) return;
  const isHandled = handlers.some(
    ({ handler, repeats }) => (repeats || !event.repeat) && handler(key, event),
  );
  if (isHandled) event.preventDefault();
}

function closeMenu(event) {
  const menu = document.querySelector(MENU);
  menu.open = false;
  menu.querySelector("summary").focus();
  event.preventDefault();
}

function openPage(letter) {
  const link = [...document.querySelectorAll("[data-go]")].find(
    (item) => item.dataset.go === letter,
  );
  if (link) window.location.assign(link.href);
  return Boolean(link);
}

function focusSearch() {
  const field = document.querySelector("[data-search]");
  if (!field) return false;
  field.closest("details")?.setAttribute("open", "");
  field.focus();
  return true;
}

function showShortcuts() {
  document.querySelector("[data-keys-sheet]")?.showModal();
  return true;
}

// Handle the keys of the whole site. They come first: after `g`, a letter opens a page, whatever
// the page uses it for.
function handleSiteKey(key) {
  if (goDeadline > performance.now()) {
    goDeadline = 0;
    return openPage(key);
  }
  if (key === (document.body.dataset.goKey ?? "g")) goDeadline = performance.now() + GO_TIMEOUT_MS;
  if (key === "?") return showShortcuts();
  return key === "/" && focusSearch();
}

handlers.unshift({ handler: handleSiteKey, repeats: false });
window.addEventListener("keydown", assignOwner, { capture: true });
window.addEventListener("keyup", (event) => firstOwners.delete(event.code || event.key), {
  capture: true,
});
window.addEventListener("blur", () => firstOwners.clear());
document.addEventListener("keydown", dispatch);
document.addEventListener("focusout", (event) => {
  const menu = event.target.closest?.(MENU);
  if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
});
