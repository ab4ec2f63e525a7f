// The page of a rollout: shows a token's probability on hover, and copies the rollout's JSON or
// the command that fetches it.
import { fetchPart } from "./site.js";
import "./stars.js";

document.addEventListener("pointerover", (event) => {
  const token = event.target.closest?.(".tokens [data-probability]");
  const status = document.querySelector("[data-token-line]");
  if (token && status)
    status.textContent = `“${token.textContent.trim() || token.textContent}”: probability ${token.dataset.probability}`;
});

// Copy the text that `readText` returns, and show the result. It returns null if it has none.
async function copy(readText) {
  const status = document.querySelector("[data-copied]");
  const text = await readText();
  if (text === null) return (status.textContent = "The server did not send the JSON. Try again.");
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied";
  } catch {
    status.textContent = "Your browser blocked copying";
  }
}

async function readJson(address) {
  const response = await fetchPart(address);
  const body = await response?.json().catch(() => null);
  return body ? JSON.stringify(body, null, 1) : null;
}

document.addEventListener("click", (event) => {
  const curl = event.target.closest("[data-copies]");
  const json = event.target.closest("[data-copies-json]");
  if (curl) copy(async () => curl.dataset.copies);
  if (!json || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  copy(() => readJson(json.href));
});
