// Remembers which items this tab holds, so that it can claim them again after a reload.
const KEY = `rate:${document.body.dataset.user}:hands`;
const page = document.querySelector("[data-desk]");
// Query parameters of the next request for items: the slots to claim again, and the fences under
// which the page held them; or null.
let params = JSON.parse(sessionStorage.getItem(KEY) ?? "null");

// A link to the page can name slots to claim. They are claimed once, so the URL loses them.
if (page.dataset.again) {
  reclaim(page.dataset.again);
  const url = page.dataset.run ? `?run=${page.dataset.run}` : window.location.pathname;
  window.history.replaceState(null, "", url);
}

export function reclaimParams() {
  return params;
}

// Claim slots, a list with commas, with the next request for items.
export function reclaim(slots) {
  params = { again: slots };
}

export function clearReclaim() {
  params = null;
}

export function remember(articles) {
  const join = (name) => articles.map((article) => article.dataset[name]).join(",");
  sessionStorage.setItem(KEY, JSON.stringify({ again: join("slot"), fences: join("fence") }));
}
