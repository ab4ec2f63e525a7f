// A rollout's page: point at a token to read its probability; stars as everywhere.
import "./rate.js";

document.addEventListener("pointerover", (event) => {
  const token = event.target.closest?.(".tokens [data-p]");
  const line = document.querySelector("[data-token-line]");
  if (token && line) line.textContent = `“${token.textContent.trim() || token.textContent}”: probability ${token.dataset.p}`;
});
