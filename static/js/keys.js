// Keyboard: `g` then a letter goes somewhere, `/` searches, `?` shows the sheet. Never while somebody types.
// A page that needs `g` for itself names another key in the body's data-go-key.
const GO_MS = 1500;
let goingUntil = 0;

const CHOICES = ["radio", "checkbox", "button", "submit"]; // inputs that take no letters

export function isText(element) {
  const field = element.closest("input, textarea, select, [contenteditable]");
  return field !== null && !(field.localName === "input" && CHOICES.includes(field.type));
}

export function isTyping(event) {
  return event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isText(event.target);
}

export function isUnderDialog() {
  return document.querySelector("dialog[open]") !== null;
}

// A key as maps of keys name it.
export function keyOf(event) {
  if (event.key === " ") return "Space";
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

function go(letter) {
  const link = [...document.querySelectorAll("[data-go]")].find((item) => item.dataset.go === letter);
  if (link) window.location.assign(link.href);
  return Boolean(link);
}

function handle(event) {
  if (isTyping(event) || isUnderDialog()) return;
  if (goingUntil > performance.now()) {
    goingUntil = 0;
    if (go(event.key)) {
      event.preventDefault();
      event.stopImmediatePropagation(); // the letter meant "go", not what the page does with it
    }
  } else if (event.key === (document.body.dataset.goKey ?? "g")) goingUntil = performance.now() + GO_MS;
  else if (event.key === "?") document.querySelector("[data-keys-sheet]")?.showModal();
  else if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (field) {
      event.preventDefault();
      field.closest("details")?.setAttribute("open", "");
      field.focus();
    }
  }
}

export function bindKeys() {
  document.addEventListener("keydown", handle, { capture: true });
}
