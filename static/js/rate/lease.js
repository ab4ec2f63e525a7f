// A claim ends soon unless the page confirms it once: one that never arrives, because the page was
// left, is kept from nobody. What is held: a sign of life each third of the lease while the tab is
// seen, the ring that runs down, the time that was spent.
import { post } from "../outbox.js";

const held = new Map(); // article → { until, length, asking, isConfirmed }
const ring = document.querySelector("[data-ring]");
const clock = document.querySelector("[data-clock]");
const LAST_PART = 0.2;
let current = null;
let spent = 0; // ms in a visible tab with the current item
let seenAt = 0; // since when it is seen; 0: it is not
let isLost = () => {};

export function address(article, verb = "") {
  return `/rate/slots/${article.dataset.slot}/${verb}`;
}

export function hold(article) {
  const length = Number(article.dataset.lease) * 1000;
  const lease = { until: performance.now() + length, length, asking: false, isConfirmed: false };
  held.set(article, lease);
  if (document.visibilityState !== "visible") beat(article, lease);
}

export function letGo(article) {
  held.delete(article);
}

export function holding() {
  return [...held.keys()].map((article) => article.dataset.slot);
}

// The item on the stage from now on, or null.
export function attend(article) {
  current = article;
  spent = 0;
  seenAt = document.visibilityState === "visible" && article ? performance.now() : 0;
  draw();
}

export function msSpent() {
  return spent + (seenAt ? performance.now() - seenAt : 0);
}

export function spentBefore(ms) {
  spent += ms;
}

async function beat(article, lease) {
  lease.asking = true;
  try {
    const answer = await post(address(article, "keep/"), { fence: Number(article.dataset.fence) });
    if (answer.ok) {
      const left = (await answer.json()).lease_s * 1000;
      Object.assign(lease, { length: left, until: performance.now() + left, isConfirmed: true });
    } else if (answer.status === 409 && held.delete(article)) isLost(article, await answer.json());
    else if (answer.status === 401) isLost(article, null);
  } catch {
    // Offline: nobody can say that it is lost.
    lease.until = Math.max(lease.until, performance.now());
  } finally {
    lease.asking = false;
  }
}

function draw() {
  const lease = held.get(current);
  const part = lease ? Math.max(0, (lease.until - performance.now()) / lease.length) : 0;
  ring.setAttribute("stroke-dasharray", `${Math.round(part * 100)} 100`);
  ring.closest("svg").classList.toggle("last", part < LAST_PART);
  const seconds = Math.floor(msSpent() / 1000);
  clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  const title = lease
    ? `Reserved for you for ${Math.max(0, Math.round((lease.until - performance.now()) / 1000))} s; renewed while this tab is open.`
    : "";
  ring.closest(".times").title = title;
}

function tick() {
  draw();
  if (document.visibilityState !== "visible") return;
  for (const [article, lease] of held)
    if (!lease.asking && performance.now() > lease.until - (lease.length * 2) / 3)
      beat(article, lease);
}

function seen() {
  const now = performance.now();
  if (document.visibilityState === "visible") {
    if (current && !seenAt) seenAt = now;
    tick();
    return;
  }
  if (seenAt) {
    spent += now - seenAt;
    seenAt = 0;
  }
  for (const [article, lease] of held)
    if (!lease.isConfirmed && !lease.asking) beat(article, lease);
}

// A beacon cannot carry the CSRF header; a request that outlives its page can, and is the same
// otherwise. A reloaded page may come before this arrives: it takes its own again under new fences,
// and this has no power.
function giveBack() {
  for (const article of held.keys())
    post(
      address(article, "release/"),
      { fence: Number(article.dataset.fence) },
      { keepalive: true },
    ).catch(() => {});
}

export function start(lost) {
  isLost = lost;
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("pagehide", giveBack);
  window.addEventListener("pageshow", (event) => event.persisted && window.location.reload());
}
