// A rollout's page: point at a token to read its probability; stars as everywhere.
import "./rate.js";

const line = document.querySelector("[data-token-line]");
document.querySelector(".tokens")?.addEventListener("pointerover", (event) => {
  const token = event.target.closest("[data-p]");
  if (token) line.textContent = `“${token.textContent.trim() || token.textContent}”: probability ${token.dataset.p}`;
});
