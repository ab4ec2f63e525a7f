// What this window's session came to: the last decisions, which can be taken back, how many there
// were, known answers, the goal.
const MOST = 10;
const desk = document.querySelector("[data-desk]");
const user = document.body.dataset.user;
// { uuid, words }, the newest last.
const decided = JSON.parse(sessionStorage.getItem(`rate:${user}:history`) ?? "[]");
const left = new Map(); // uuid → what was on the stage, while this page lives
const since = Number(sessionStorage.getItem(`rate:${user}:since`)) || Date.now();
const goldCounts = desk.dataset.gold.split(" ").map(Number); // met, of how many; [0] where nobody tells
let count = Number(sessionStorage.getItem(`rate:${user}:count`) ?? 0);
let today = Number(desk.dataset.today);
// Only the newest decisions are counted.
const atLeast = "todayMore" in desk.dataset ? "at least " : "";

export function last() {
  return decided.at(-1);
}

export function stageOf(uuid) {
  return left.get(uuid) ?? null;
}

export function took(uuid, words, stage) {
  decided.push({ uuid, words });
  left.set(uuid, stage);
  for (const old of decided.splice(0, Math.max(0, decided.length - MOST))) left.delete(old.uuid);
  counted(1);
}

// It cannot be taken back any more. Returns whether it was one of the last.
export function forget(uuid) {
  const place = decided.findIndex((one) => one.uuid === uuid);
  if (place >= 0) decided.splice(place, 1);
  left.delete(uuid);
  keep();
  return place >= 0;
}

// It does not stand: as if it had not been decided.
export function undid(uuid) {
  if (forget(uuid)) counted(-1);
}

// A known answer, in words; counted once.
export function told(gold, isNew) {
  if (isNew) goldCounts.splice(0, 2, goldCounts[0] + gold.met, (goldCounts[1] ?? 0) + 1);
  show();
  const words = gold.met
    ? "Correct: this matches the gold item."
    : `The correct rating of this gold item: ${gold.words}.`;
  return gold.explanation ? `${words} ${gold.explanation}` : words;
}

function counted(by) {
  count = Math.max(0, count + by);
  today = Math.max(0, today + by);
  keep();
  show();
}

function keep() {
  sessionStorage.setItem(`rate:${user}:history`, JSON.stringify(decided));
  sessionStorage.setItem(`rate:${user}:count`, count);
  sessionStorage.setItem(`rate:${user}:since`, since);
}

function show() {
  const hours = (Date.now() - since) / 3_600_000;
  const perHour =
    count > 2 && hours > 0.005
      ? `, ${Math.round(count / hours).toLocaleString("en")} per hour`
      : "";
  const met = goldCounts[1] ? ` · gold items correct: ${goldCounts[0]} of ${goldCounts[1]}` : "";
  desk.querySelector("[data-own]").textContent =
    `${atLeast}${today} today · ${count} this session${perHour}${met}`;
  const goal = Number(desk.querySelector("[data-goal]").value);
  const part = goal ? Math.min(100, (100 * count) / goal) : 0;
  const bar = desk.querySelector("[data-goal-bar]");
  bar.setAttribute("aria-valuenow", Math.round(part));
  bar.firstElementChild.setAttribute("width", part);
  bar.classList.toggle("unset", !goal);
}

// A control whose choice this browser keeps.
function own(selector, name, onChange) {
  const control = desk.querySelector(selector);
  const kept = localStorage.getItem(`rate:${user}:${name}`);
  if (control.type === "checkbox") control.checked = kept === "1";
  else control.value = kept ?? "";
  control.addEventListener("change", () => {
    localStorage.setItem(
      `rate:${user}:${name}`,
      control.type === "checkbox" ? Number(control.checked) : control.value,
    );
    onChange();
  });
}

own("[data-goal]", "goal", show);
own("[data-at-once]", "at-once", () => {});
show();
