// Keyboard navigation of a list of cards: j and k move the selection, digits give stars.
import { giveStars } from "./stars.js";

function moveSelection(selector, delta) {
  const cards = [...document.querySelectorAll(selector)];
  const current = cards.findIndex(
    (card) => card.contains(document.activeElement) || card.classList.contains("sel"),
  );
  const next = cards[Math.min(cards.length - 1, Math.max(0, current + delta))];
  selectCard(selector, next);
}

function selectCard(selector, card) {
  if (!card) return;
  for (const other of document.querySelectorAll(`${selector}.sel`)) other.classList.remove("sel");
  card.classList.add("sel");
  card.focus({ preventScroll: true });
  card.scrollIntoView({ block: "nearest" });
}

export function selectedCard(selector) {
  return document.activeElement?.closest(selector) ?? document.querySelector(`${selector}.sel`);
}

// Handle a key of the card list; returns true if it has a meaning there. A key held down keeps
// moving the selection, but gives no stars.
export function handleCardKey(key, event, selector) {
  if (key === "j" || key === "ArrowDown") moveSelection(selector, 1);
  else if (key === "k" || key === "ArrowUp") moveSelection(selector, -1);
  else if (!/^[1-5]$/.test(key)) return false;
  else if (!event.repeat) giveStarsToSelected(selector, Number(key));
  return true;
}

function giveStarsToSelected(selector, stars) {
  const card = selectedCard(selector);
  if (card?.querySelector("[data-stars]")) giveStars(Number(card.dataset.rollout), stars);
}
