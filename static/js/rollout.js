// The page of a rollout: shows a token's probability on hover, and copies the rollout's JSON or
// the command that fetches it.
import "./stars.js";

document.addEventListener("pointerover", (event) => {
  const token = event.target.closest?.(".tokens [data-probability]");
  const status = document.querySelector("[data-token-line]");
  if (token && status)
    status.textContent = `“${token.textContent.trim() || token.textContent}”: probability ${token.dataset.probability}`;
});

// Copy the text that `readText` returns, and show the result.
async function copy(readText) {
  const status = document.querySelector("[data-copied]");
  try {
    await navigator.clipboard.writeText(await readText());
    status.textContent = "Copied";
  } catch {
    status.textContent = "Your browser blocked copying";
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
