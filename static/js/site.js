// Behavior of all pages: theme switch, command palette, clickable rows, dialogs, the CSRF token of
// requests, sessions that end, the connection indicator, and relative times.
import { showPalette } from "./keys.js";

// Relative times such as "12 s" are updated in the browser: each <time data-age> counts from its
// datetime.
const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

function formatAge(seconds) {
  const rounded = Math.max(0, Math.round(seconds));
  for (const [size, unit] of UNITS)
    if (rounded >= size) return `${Math.floor(rounded / size)} ${unit}`;
  return `${rounded} s`;
}

function refreshAges() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-age]")) {
    const text = formatAge((now - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

const THEMES = ["", "light", "dark"];

function switchTheme() {
  const current = document.documentElement.dataset.theme ?? "";
  const next = THEMES[(THEMES.indexOf(current) + 1) % THEMES.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", next);
  document.dispatchEvent(new CustomEvent("theme"));
}

// Open the page of a row that was clicked, as its link would: with Ctrl or Command in a new tab.
// Selecting text in a row opens nothing.
function openRow(event) {
  if (event.target.closest("a, button, input, label, summary")) return;
  const link = event.target.closest("tr.open")?.querySelector("a");
  if (!link || getSelection()?.toString()) return;
  const { ctrlKey, metaKey, shiftKey } = event;
  link.dispatchEvent(
    new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey, metaKey, shiftKey }),
  );
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

// Return the CSRF token. A login in another tab replaces the cookie, and the page's own token is
// refused from then on.
export function csrfToken() {
  const { csrf, csrfCookie } = document.body.dataset;
  const cookie = document.cookie.split("; ").find((part) => part.startsWith(`${csrfCookie}=`));
  return cookie ? decodeURIComponent(cookie.slice(csrfCookie.length + 1)) : csrf;
}

document.addEventListener("htmx:config:request", (event) => {
  event.detail.ctx.request.headers["X-CSRFToken"] = csrfToken();
});

document.addEventListener("submit", (event) => {
  const field = event.target.querySelector("[name=csrfmiddlewaretoken]");
  if (field) field.value = csrfToken();
});

// After a session has ended, a request for a part of the page is redirected to the login page, which
// must not replace that part and what was typed in it.
document.addEventListener("htmx:before:response", (event) => {
  const address = loginAddress(event.detail.ctx.response.raw);
  if (!address) return;
  event.preventDefault();
  showSignedOut(address);
});

// Return the address of the login page if a response was redirected there, else null.
function loginAddress(response) {
  const address = new URL(response.url, location.href);
  return response.redirected && address.pathname.startsWith("/accounts/") ? address : null;
}

// Fetch a part of the page, or its data. Returns null if the server is away or answers an error,
// and if the session has ended; the page then says so.
export async function fetchPart(url) {
  const response = await fetch(url).catch(() => null);
  const login = response && loginAddress(response);
  if (login) showSignedOut(login);
  return response?.ok && !response.redirected ? response : null;
}

function showSignedOut(login) {
  if (document.querySelector("[data-signed-out]")) return;
  const note = document.createElement("p");
  const link = document.createElement("a");
  login.searchParams.set("next", location.pathname + location.search);
  Object.assign(link, { className: "link", href: login, textContent: "Log in", target: "_blank" });
  note.className = "note warning";
  note.dataset.signedOut = "";
  note.setAttribute("role", "alert");
  note.append("You are signed out. This page keeps what you typed. ", link, " in a new tab.");
  document.getElementById("page").prepend(note);
}

// Show the state of the page's connection: "live", "late" or "offline", and its text.
export function showConnection(state, text) {
  const dot = document.querySelector("[data-connection]");
  if (!dot) return;
  dot.dataset.socket = "yes"; // the page's own script sets it, not the listeners below
  dot.hidden = false;
  dot.dataset.state = state;
  dot.textContent = text;
}

// Whether a person has changed a control in this part of the page and not sent it. A refresh must
// not discard input.
export function hasChangedControls(region) {
  return [...region.querySelectorAll("textarea, input, select")].some(isChanged);
}

function isChanged(control) {
  if (control instanceof HTMLSelectElement) return isOtherOptionSelected(control);
  if (/^(checkbox|radio)$/.test(control.type)) return control.checked !== control.defaultChecked;
  return control.value !== control.defaultValue;
}

function isOtherOptionSelected(select) {
  const options = [...select.options];
  const hasDefault = options.some((option) => option.defaultSelected);
  // Without a default, a list that shows one option selects its first.
  if (!hasDefault && !select.multiple && select.size <= 1) return select.selectedIndex > 0;
  return options.some((option) => option.selected !== option.defaultSelected);
}

window.addEventListener("offline", () => setOffline(true));
window.addEventListener("online", () => setOffline(false));
function setOffline(isOffline) {
  const dot = document.querySelector("[data-connection]");
  if (!dot || dot.dataset.socket) return;
  dot.hidden = !isOffline;
  dot.dataset.state = isOffline ? "offline" : "";
  dot.textContent = isOffline ? "offline" : "";
}

// Each page of a run shows its open alerts, and refreshes them while the tab is visible.
const BANNER_MS = 15_000;
const banner = document.getElementById("alert-banner");
const refreshBanner = () =>
  document.visibilityState === "visible" &&
  !banner.contains(document.activeElement) &&
  window.htmx?.trigger(banner, "changed");
if (banner) setInterval(refreshBanner, BANNER_MS);

for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  // Scroll only the row of tabs: scrollIntoView would also scroll the page.
  const row = tab.closest(".tabs");
  row.scrollLeft +=
    tab.getBoundingClientRect().left -
    row.getBoundingClientRect().left -
    (row.clientWidth - tab.offsetWidth) / 2;
}

// Load the script of the copy buttons only if the page has something to copy.
const COPYABLE = "[data-secret], [data-copy], pre.command, .prose pre";
const addCopyButtons = async () =>
  navigator.clipboard &&
  document.querySelector(COPYABLE) &&
  (await import("./copy_buttons.js")).addCopyButtons();
document.addEventListener("htmx:after:swap", addCopyButtons);
addCopyButtons();

// Escape closes the explanation of a term until the pointer or the focus returns.
for (const term of document.querySelectorAll(".term")) {
  term.addEventListener("keydown", (event) => event.key === "Escape" && (term.dataset.closed = ""));
  for (const eventName of ["mouseleave", "focusout"])
    term.addEventListener(eventName, () => delete term.dataset.closed);
}

refreshAges();
setInterval(refreshAges, 1000);
const tourTarget = document.querySelector("[data-tour-target]");
if (tourTarget) document.querySelector(tourTarget.dataset.tourTarget)?.classList.add("tour-target");
