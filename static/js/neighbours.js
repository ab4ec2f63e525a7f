// The arrow keys open the page before and the one after, where the page links to them.
import { isTyping, isUnderDialog } from "./keys.js";

const WAYS = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };

document.addEventListener("keydown", (event) => {
  const way = WAYS[event.key];
  if (!way || event.shiftKey || isTyping(event) || isUnderDialog()) return;
  const link = document.querySelector(`main ${way}`);
  if (!link) return;
  event.preventDefault();
  window.location.assign(link.href);
});
