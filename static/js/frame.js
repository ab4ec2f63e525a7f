// What every page has: theme switch, keys, rows that open, dialogs, CSRF for htmx, times that age.
import { showPalette } from "./keys.js";

// "12 s" grows without asking the server: every <time data-age> counts from its datetime.
const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

function age(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [size, word] of UNITS) if (whole >= size) return `${Math.floor(whole / size)} ${word}`;
  return `${whole} s`;
}

function refreshAges() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-age]")) {
    const words = age((now - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== words) time.textContent = words;
  }
}

const THEMES = ["", "light", "dark"];

function switchTheme() {
  const now = document.documentElement.dataset.theme ?? "";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", next);
  document.dispatchEvent(new CustomEvent("theme"));
}

function openRow(event) {
  if (event.target.closest("a, button, input, label, summary")) return;
  event.target.closest("tr.open")?.querySelector("a")?.click();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) switchTheme();
  if (event.target.closest("[data-palette]") && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    showPalette();
  }
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens)?.showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog")?.close();
  for (const menu of document.querySelectorAll("details.menu[open]"))
    if (!menu.contains(event.target)) menu.open = false;
  openRow(event);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

document.addEventListener("htmx:config:request", (event) => {
  event.detail.ctx.request.headers["X-CSRFToken"] = document.body.dataset.csrf;
});

window.addEventListener("offline", () => setOffline(true));
window.addEventListener("online", () => setOffline(false));
function setOffline(off) {
  const dot = document.querySelector("[data-connection]");
  if (!dot || dot.dataset.socket) return; // a page with a socket speaks for itself
  dot.hidden = !off;
  dot.dataset.state = off ? "offline" : "";
  dot.textContent = off ? "offline" : "";
}

// Open alerts of a run stand on each of its pages, and are asked for again while somebody looks.
const BANNER_MS = 15_000;
const banner = document.getElementById("alert-banner");
if (banner)
  setInterval(
    () => document.visibilityState === "visible" && window.htmx?.trigger(banner, "changed"),
    BANNER_MS,
  );

for (const here of document.querySelectorAll(".tabs [aria-current]")) {
  // The row alone is scrolled: tabs further down would take the page with them.
  const row = here.closest(".tabs");
  row.scrollLeft +=
    here.getBoundingClientRect().left -
    row.getBoundingClientRect().left -
    (row.clientWidth - here.offsetWidth) / 2;
}

// Copy buttons come with their script, where a page has something to copy.
const COPIED = "[data-secret], [data-copy], pre.command, .prose pre";
const offerCopies = async () =>
  navigator.clipboard &&
  document.querySelector(COPIED) &&
  (await import("./copying.js")).offerCopies();
document.addEventListener("htmx:after:swap", offerCopies);
offerCopies();

// Escape closes the explanation of a term until the pointer or the focus comes back.
for (const term of document.querySelectorAll(".term")) {
  term.addEventListener("keydown", (event) => event.key === "Escape" && (term.dataset.closed = ""));
  for (const back of ["mouseleave", "focusout"])
    term.addEventListener(back, () => delete term.dataset.closed);
}

refreshAges();
setInterval(refreshAges, 1000);
const aim = document.querySelector("[data-tour-aim]");
if (aim) document.querySelector(aim.dataset.tourAim)?.classList.add("aimed");
