// The end of the queue: what the rating page shows while no items are left.
import { find } from "./messages.js";

const page = document.querySelector("[data-desk]");
const REFRESH_MS = Number(page.dataset.endAgain);
let renderedAt = 0;

// Show the end of the queue. `waiting` is a digest of what the server counted when it had no item to
// send, or null if it is unknown. Render again when the digest has changed; and now and then, because
// the numbers change as updates use the ratings.
export async function renderQueueEnd(stage, waiting, heldSlots) {
  const shownDigest = find("[data-nothing]", stage)?.dataset.waitingDigest;
  const hasChanged = waiting !== null && waiting !== shownDigest;
  const isOld = waiting !== null && performance.now() - renderedAt > REFRESH_MS;
  if (shownDigest !== undefined && !hasChanged && !isOld) return;
  const query = new URLSearchParams({ run: page.dataset.run, holding: heldSlots.join(",") });
  const response = await fetch(`${page.dataset.end}?${query}`);
  if (!response.ok) throw new Error("no end");
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const end = document.importNode(find("[data-nothing]", parsed), true);
  stage.replaceChildren(end);
  renderedAt = performance.now();
  showBadge(end.dataset.badge);
}

// Update the count in the navigation, so that it agrees with what the page shows.
function showBadge(count) {
  const badge = document.querySelector("[data-waiting-badge]");
  badge.textContent = count;
  badge.hidden = !count;
}
