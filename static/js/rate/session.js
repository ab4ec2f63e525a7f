// The rating session of this tab: the last ratings, which can be undone, the number of ratings, the
// results of gold items, and the session goal.
const MAX_UNDO = 10;
const page = document.querySelector("[data-rating-page]");
const user = document.body.dataset.user;
// { uuid, words }, oldest first.
const ratings = JSON.parse(sessionStorage.getItem(`rate:${user}:history`) ?? "[]");
const items = new Map(); // uuid → the item as it was rated, until the page is left
const startedAt = Number(sessionStorage.getItem(`rate:${user}:since`)) || Date.now();
// [correct, total] of gold items; [0] if the rater is not told.
const goldCounts = page.dataset.gold.split(" ").map(Number);
let count = Number(sessionStorage.getItem(`rate:${user}:count`) ?? 0);
let today = Number(page.dataset.today);
// The server counts only up to a limit.
const todayPrefix = "todayPartial" in page.dataset ? "at least " : "";

export function last() {
  return ratings.at(-1);
}

export function itemOf(uuid) {
  return items.get(uuid) ?? null;
}

export function record(uuid, words, item) {
  ratings.push({ uuid, words });
  items.set(uuid, item);
  for (const old of ratings.splice(0, Math.max(0, ratings.length - MAX_UNDO)))
    items.delete(old.uuid);
  addToCounts(1);
}

// Remove a rating that can't be undone any more. Returns whether it was among the last.
export function forget(uuid) {
  const index = ratings.findIndex((entry) => entry.uuid === uuid);
  if (index >= 0) ratings.splice(index, 1);
  items.delete(uuid);
  save();
  return index >= 0;
}

// Remove an undone rating, and don't count it.
export function revert(uuid) {
  if (forget(uuid)) addToCounts(-1);
}

// Count the result of a gold item once, and return the message about it.
export function recordGold(gold, isNew) {
  if (isNew) goldCounts.splice(0, 2, goldCounts[0] + gold.met, (goldCounts[1] ?? 0) + 1);
  showCounts();
  const words = gold.met
    ? "Correct: this matches the gold item."
    : `The correct rating of this gold item: ${gold.words}.`;
  return gold.explanation ? `${words} ${gold.explanation}` : words;
}

function addToCounts(delta) {
  count = Math.max(0, count + delta);
  today = Math.max(0, today + delta);
  save();
  showCounts();
}

function save() {
  sessionStorage.setItem(`rate:${user}:history`, JSON.stringify(ratings));
  sessionStorage.setItem(`rate:${user}:count`, count);
  sessionStorage.setItem(`rate:${user}:since`, startedAt);
}

function showCounts() {
  const hours = (Date.now() - startedAt) / 3_600_000;
  const perHour =
    count > 2 && hours > 0.005
      ? `, ${Math.round(count / hours).toLocaleString("en")} per hour`
      : "";
  const gold = goldCounts[1] ? ` · gold items correct: ${goldCounts[0]} of ${goldCounts[1]}` : "";
  page.querySelector("[data-session-counts]").textContent =
    `${todayPrefix}${today} today · ${count} this session${perHour}${gold}`;
  const goal = Number(page.querySelector("[data-goal]").value);
  const percent = goal ? Math.min(100, (100 * count) / goal) : 0;
  const bar = page.querySelector("[data-goal-bar]");
  bar.setAttribute("aria-valuenow", Math.round(percent));
  bar.firstElementChild.setAttribute("width", percent);
  bar.classList.toggle("unset", !goal);
}

// A control whose value the browser stores.
function persistControl(selector, name, onChange) {
  const control = page.querySelector(selector);
  const stored = localStorage.getItem(`rate:${user}:${name}`);
  if (control.type === "checkbox") control.checked = stored === "1";
  else control.value = stored ?? "";
  control.addEventListener("change", () => {
    localStorage.setItem(
      `rate:${user}:${name}`,
      control.type === "checkbox" ? Number(control.checked) : control.value,
    );
    onChange();
  });
}

persistControl("[data-goal]", "goal", showCounts);
persistControl("[data-auto-submit]", "auto-submit", () => {});
showCounts();
