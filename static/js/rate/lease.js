// Leases of the items that this page holds: renews them while the tab is visible, and shows the
// time left and the time spent. A lease is short until the page has confirmed it once, so that an
// item which never arrived at a page is soon free again.
import { post } from "../outbox.js";

const leases = new Map(); // article → { until, length, isRenewing, isConfirmed, retryAt }
const ring = document.querySelector("[data-ring]");
const clock = document.querySelector("[data-clock]");
const LOW_FRACTION = 0.2;
const SIGNED_OUT_RETRY_MS = 30_000;
const HELD_KEY = `rate:${document.body.dataset.user}:hands`;
const page = document.querySelector("[data-rating-page]");
let current = null;
let pastMs = 0; // ms for which the current item was visible, before visibleSince
let visibleSince = 0; // when the current item became visible; 0 if it is not
let onLost = () => {};

export function address(article, verb = "") {
  return `/rate/slots/${article.dataset.slot}/${verb}`;
}

// The fence and the version prove to the server which lease and which texts a rating is about.
export function fields(article) {
  return { fence: Number(article.dataset.fence), version: Number(article.dataset.version) };
}

export function add(article) {
  const length = Number(article.dataset.lease) * 1000;
  const lease = {
    until: performance.now() + length,
    length,
    isRenewing: false,
    isConfirmed: false,
    retryAt: 0,
  };
  leases.set(article, lease);
  if (document.visibilityState !== "visible") renew(article, lease);
}

export function remove(article) {
  leases.delete(article);
}

export function heldSlots() {
  return [...leases.keys()].map((article) => article.dataset.slot);
}

// Measure the time for another item, or for none.
export function setCurrent(article) {
  current = article;
  pastMs = 0;
  visibleSince = document.visibilityState === "visible" && article ? performance.now() : 0;
  showTimes();
}

// Return for how many milliseconds the current item was visible.
export function timeSpent() {
  return pastMs + (visibleSince ? performance.now() - visibleSince : 0);
}

export function addTimeSpent(ms) {
  pastMs += ms;
}

// Renew one lease. If the server has given it to another rater, report it as lost.
async function renew(article, lease) {
  lease.isRenewing = true;
  try {
    const response = await post(address(article, "keep/"), {
      fence: Number(article.dataset.fence),
    });
    if (response.ok) {
      const remainingMs = (await response.json()).lease_s * 1000;
      Object.assign(lease, {
        length: remainingMs,
        until: performance.now() + remainingMs,
        isConfirmed: true,
      });
    } else if (response.status === 409 && leases.delete(article))
      onLost(article, await response.json());
    else if (response.status === 401) {
      lease.retryAt = performance.now() + SIGNED_OUT_RETRY_MS;
      onLost(article, null);
    }
  } catch {
    // Offline: only the server can say that the lease is lost.
    lease.until = Math.max(lease.until, performance.now());
  } finally {
    lease.isRenewing = false;
  }
}

function showTimes() {
  const lease = leases.get(current);
  const fraction = lease ? Math.max(0, (lease.until - performance.now()) / lease.length) : 0;
  ring.setAttribute("stroke-dasharray", `${Math.round(fraction * 100)} 100`);
  ring.closest("svg").classList.toggle("last", fraction < LOW_FRACTION);
  const seconds = Math.floor(timeSpent() / 1000);
  clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  const title = lease
    ? `Reserved for you for ${Math.max(0, Math.round((lease.until - performance.now()) / 1000))} s; renewed while this tab is open.`
    : "";
  ring.closest(".times").title = title;
}

function tick() {
  showTimes();
  if (document.visibilityState !== "visible") return;
  const now = performance.now();
  for (const [article, lease] of leases) {
    const isDue = now > Math.max(lease.retryAt, lease.until - (lease.length * 2) / 3);
    if (isDue && !lease.isRenewing) renew(article, lease);
  }
}

function onVisibilityChange() {
  const now = performance.now();
  if (document.visibilityState === "visible") {
    if (current && !visibleSince) visibleSince = now;
    tick();
    return;
  }
  if (visibleSince) {
    pastMs += now - visibleSince;
    visibleSince = 0;
  }
  for (const [article, lease] of leases)
    if (!lease.isConfirmed && !lease.isRenewing) renew(article, lease);
}

// Release all leases when the page is left. A beacon can't carry the CSRF header; a keepalive
// request can. A reload may reach the server before this request: then the page has taken the items
// again with new fences, and this request has no effect.
function releaseAll() {
  for (const article of leases.keys())
    post(
      address(article, "release/"),
      { fence: Number(article.dataset.fence) },
      { keepalive: true },
    ).catch(() => {});
}

export function start(handler) {
  onLost = handler;
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", onVisibilityChange);
  window.addEventListener("pagehide", releaseAll);
  window.addEventListener("pageshow", (event) => event.persisted && window.location.reload());
}

/* claiming the items again after a reload */

// Query parameters of the next request for items: the slots to claim again, and the fences under
// which the page held them; or null.
let reclaimed = JSON.parse(sessionStorage.getItem(HELD_KEY) ?? "null");

// A link to the page can name slots to claim. They are claimed once, so the URL loses them.
if (page.dataset.reclaim) {
  reclaim(page.dataset.reclaim);
  const url = page.dataset.run ? `?run=${page.dataset.run}` : window.location.pathname;
  window.history.replaceState(null, "", url);
}

export function reclaimParams() {
  return reclaimed;
}

// Claim slots, a list with commas, with the next request for items.
export function reclaim(slots) {
  reclaimed = { again: slots };
}

export function clearReclaim() {
  reclaimed = null;
}

// Store which items this tab holds, so that it can claim them again after a reload.
export function remember(articles) {
  const join = (name) => articles.map((article) => article.dataset[name]).join(",");
  sessionStorage.setItem(HELD_KEY, JSON.stringify({ again: join("slot"), fences: join("fence") }));
}
