// One of several cards has the focus: j and k move it, digits give it stars.
import { isTyping, isUnderDialog } from "./keys.js";
import { give } from "./rate.js";

export function moveBy(selector, delta) {
  const cards = [...document.querySelectorAll(selector)];
  const now = cards.findIndex((card) => card.contains(document.activeElement) || card.classList.contains("sel"));
  const next = cards[Math.min(cards.length - 1, Math.max(0, now + delta))];
  select(selector, next);
}

export function select(selector, card) {
  if (!card) return;
  for (const other of document.querySelectorAll(`${selector}.sel`)) other.classList.remove("sel");
  card.classList.add("sel");
  card.focus({ preventScroll: true });
  card.scrollIntoView({ block: "nearest" });
}

export function inFocus(selector) {
  return document.activeElement?.closest(selector) ?? document.querySelector(`${selector}.sel`);
}

// Returns true when the key was one of the cards' own.
export function cardKey(event, selector) {
  if (isTyping(event) || isUnderDialog()) return false;
  if (event.key === "j" || event.key === "ArrowDown") moveBy(selector, 1);
  else if (event.key === "k" || event.key === "ArrowUp") moveBy(selector, -1);
  else if (/^[1-5]$/.test(event.key)) {
    const card = inFocus(selector);
    if (card?.querySelector("[data-stars]")) give(Number(card.dataset.rollout), Number(event.key));
  } else return false;
  event.preventDefault();
  return true;
}
