// A rollout's page: point at a token to read its probability; stars as everywhere.
import "./rate.js";

document.addEventListener("pointerover", (event) => {
  const token = event.target.closest?.(".tokens [data-p]");
  const line = document.querySelector("[data-token-line]");
  if (token && line)
    line.textContent = `“${token.textContent.trim() || token.textContent}”: probability ${token.dataset.p}`;
});

// Its REST document, or how to fetch it, into the clipboard; what became of that is said beside.
async function copy(text) {
  const line = document.querySelector("[data-copied]");
  try {
    await navigator.clipboard.writeText(await text());
    line.textContent = "Copied";
  } catch {
    line.textContent = "Your browser blocked copying";
  }
}

document.addEventListener("click", (event) => {
  const curl = event.target.closest("[data-copies]");
  const json = event.target.closest("[data-copies-json]");
  if (curl) copy(async () => curl.dataset.copies);
  if (!json || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  copy(async () => JSON.stringify(await (await fetch(json.href)).json(), null, 1));
});
