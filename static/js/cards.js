// One of several cards has the focus: j and k move it, digits give it stars.
import { give } from "./rate.js";

export function moveBy(selector, delta) {
  const cards = [...document.querySelectorAll(selector)];
  const now = cards.findIndex(
    (card) => card.contains(document.activeElement) || card.classList.contains("sel"),
  );
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

// Returns true when the key was one of the cards' own. A key held down moves on, and gives no
// stars.
export function cardKey(key, event, selector) {
  if (key === "j" || key === "ArrowDown") moveBy(selector, 1);
  else if (key === "k" || key === "ArrowUp") moveBy(selector, -1);
  else if (!/^[1-5]$/.test(key)) return false;
  else if (!event.repeat) giveToFocused(selector, Number(key));
  return true;
}

function giveToFocused(selector, stars) {
  const card = inFocus(selector);
  if (card?.querySelector("[data-stars]")) give(Number(card.dataset.rollout), stars);
}
