// A run's page: its charts over one window of steps, and one request now and then for what is new.
import { figure } from "./canvas.js";
import { Chart } from "./curves/plot.js";
import { download } from "./curves/png.js";
import { Sheet } from "./curves/sheet.js";
import { follow, throttled } from "./stream.js";

const PULSE_MS = 6000; // for what events announce
const QUIET_MS = 15000; // sampling and waiting move without events
const SLOW_TURNS = 3; // how many pulses what stands beside the charts waits for
const MOST_ADDED = 300; // points, until the whole is read again in fewer

const page = document.querySelector("[data-run]");
const place = document.querySelector(".curves");
const sheet = new Sheet();
const charts = new Map(); // key → Chart
const asked = new URLSearchParams(location.search);
const digests = {};
let marks = [], sequence = Number(page.dataset.sequence), wantsMarks = false, turn = 0;

const axis = () => asked.get("x") ?? "step";
const smooth = () => Number(asked.get("smooth") ?? 0);
const isZoomed = () => asked.has("from_step") || asked.has("to_step");

// -- the window of steps, and what stands in the address ----------------------------------------------------------

function query(names, more = {}) {
  const words = new URLSearchParams();
  for (const name of ["x", "from_step", "to_step"]) if (asked.get(name)) words.set(name, asked.get(name));
  for (const name of names) words.append("names", name);
  for (const [name, value] of Object.entries(more)) words.set(name, value);
  return words;
}

function seenNames() {
  return [...new Set([...charts.values()].filter((chart) => chart.isSeen).flatMap((chart) => chart.names))];
}

let loading; // the newest read of the whole; an older one that answers later is let go
async function load(names = seenNames()) {
  if (!names.length) return;
  const isAll = names.length === seenNames().length;
  const mine = isAll ? (loading = {}) : loading;
  const answer = await fetch(`${page.dataset.curves}?${query(names)}`);
  if (!answer.ok || mine !== loading) return;
  const said = await answer.json();
  if (isAll) sheet.clear();
  sheet.read(said);
  marks = said.changes;
  repaint();
}

function address() {
  const words = asked.toString();
  return location.pathname + (words ? `?${words}` : "");
}

function go(change, isNew = true) {
  change();
  history[isNew ? "pushState" : "replaceState"](null, "", address());
  settle();
}

function settle() {
  for (const link of place.querySelectorAll("[data-axis]")) {
    link.toggleAttribute("aria-current", link.dataset.axis === axis());
    if (link.dataset.axis === axis()) link.setAttribute("aria-current", "true");
  }
  const words = { from: asked.get("from_step") ?? 1, to: asked.get("to_step") ?? sheet.step };
  place.querySelector("[data-window]").textContent = isZoomed() ? `steps ${words.from} to ${words.to}` : "";
  place.querySelector("[data-whole]").hidden = !isZoomed();
  for (const chart of charts.values()) retarget(chart);
}

// Links beside a chart lead to what it shows.
function retarget(chart) {
  const csv = chart.element.querySelector("[data-csv]"), words = query(chart.names);
  words.delete("x");
  csv.href = `${page.dataset.curves.replace(/curves\/$/, "curves.csv")}?${words}`;
  const link = chart.element.querySelector("h3 > a");
  if (!link) return;
  const there = new URLSearchParams(asked);
  there.set("chart", chart.key);
  link.href = `?${there}`;
}

function zoom(from, to) {
  go(() => {
    asked.set("from_step", from - (from > 1 && sheet.wide > 1 ? sheet.wide - 1 : 0));
    asked.set("to_step", to);
  });
  load();
}

function whole() {
  if (!isZoomed()) return;
  go(() => ["from_step", "to_step"].forEach((name) => asked.delete(name)));
  load();
}

// -- charts ---------------------------------------------------------------------------------------------------------

const view = { sheet, marks: () => marks, smooth, axis, pointed, picked: zoom, whole };

const seeing = new IntersectionObserver((entries) => {
  const fresh = entries.filter((entry) => entry.isIntersecting).map((entry) => charts.get(entry.target.dataset.curve));
  const unknown = fresh.flatMap((chart) => chart.names).filter((name) => !sheet.series.has(name));
  for (const chart of fresh) {
    seeing.unobserve(chart.element);
    chart.isSeen = true;
  }
  if (unknown.length) load(sheet.step ? [...new Set(unknown)] : undefined);
  else fresh.forEach((chart) => chart.paint());
}, { rootMargin: "120px" });

const sizing = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const { plot, figure: box } = charts.get(target.closest(".curve").dataset.curve) ?? {};
    if (plot && (plot.width !== box.clientWidth || plot.height !== box.clientHeight)) plot.setSize({ width: box.clientWidth, height: box.clientHeight });
  }
});

function adopt(element) {
  const chart = new Chart(element, view);
  charts.set(chart.key, chart);
  retarget(chart);
  const button = element.querySelector("[data-png]");
  button.hidden = false;
  button.addEventListener("click", () => {
    button.closest("details").open = false;
    download(chart, wordsOfView(), `${location.pathname.split("/").at(-2)}-${chart.key}`);
  });
  sizing.observe(chart.figure);
  seeing.observe(element);
}

function dismiss(key) {
  const chart = charts.get(key);
  if (!chart) return;
  chart.destroy();
  sizing.unobserve(chart.figure);
  seeing.unobserve(chart.element);
  chart.element.remove();
  charts.delete(key);
}

function wordsOfView() {
  const against = place.querySelector(`[data-axis="${axis()}"]`).textContent.trim();
  return `against the ${against}${isZoomed() ? `, ${place.querySelector("[data-window]").textContent}` : ""}${grain() && `; ${grain()}`}`;
}

// What one point of a curve is, when it is not one step.
function grain() {
  return sheet.wide > 1 ? `each point: mean of ${sheet.wide} steps, band from the lowest to the highest` : "";
}

let pending;
function repaint() {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => {
    for (const chart of charts.values()) chart.paint();
    pointed(null, "");
    settle();
  });
}

// The numbers in the titles: at the cursor while somebody points, else the newest. Every tied chart says where that is.
let told;
function pointed(step, words) {
  const here = `${step} ${words}`;
  if (step !== null && told === here) return;
  told = here;
  const at = place.querySelector("[data-at]");
  at.textContent = step === null ? grain() : [`step ${step.toLocaleString("en")}`, placed(step), words].filter(Boolean).join(" · ");
  for (const element of place.querySelectorAll("[data-value]")) {
    const name = element.dataset.value, value = step === null ? sheet.newest(name) : sheet.series.get(name)?.get(step)?.y;
    if (value !== undefined || step !== null) element.textContent = figure(value);
  }
  for (const element of place.querySelectorAll("[data-spread]")) {
    const name = element.dataset.spread, value = step === null ? sheet.newest(name) : sheet.series.get(name)?.get(step)?.y;
    element.textContent = value === undefined ? "" : `± ${figure(value)}`;
  }
  for (const element of place.querySelectorAll("[data-legend]")) if (sheet.has(element.dataset.legend)) element.hidden = false;
}

function placed(step) {
  const x = sheet.places.get(step);
  if (axis() === "version") return `v${x}`;
  return axis() === "time" ? new Date(x * 1000).toLocaleString() : "";
}

// -- what is picked besides -----------------------------------------------------------------------------------------

function pick(box) {
  const key = `also-${box.value}`;
  go(() => {
    const others = asked.getAll("also").filter((name) => name !== box.value);
    asked.delete("also");
    for (const name of box.checked ? [...others, box.value] : others) asked.append("also", name);
  }, false);
  if (!box.checked) return dismiss(key);
  const element = place.querySelector("[data-curve-template]").content.firstElementChild.cloneNode(true);
  Object.assign(element.dataset, { curve: key, names: box.value, title: box.value.replaceAll("_", " ") });
  element.querySelector("h3").title = `recorded as ${box.value}`;
  element.querySelector("h3 > a").textContent = element.dataset.title;
  element.querySelector("h3 > b").dataset.value = box.value;
  place.querySelector("[data-picked]").append(element);
  adopt(element);
}

function listen() {
  place.addEventListener("click", (event) => {
    const link = event.target.closest("[data-axis], [data-whole]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if ("whole" in link.dataset) return whole();
    go(() => (link.dataset.axis === "step" ? asked.delete("x") : asked.set("x", link.dataset.axis)));
    load();
  });
  const slider = place.querySelector("[data-smooth]"), said = place.querySelector("[data-smooth-value]");
  const tell = () => (said.textContent = smooth() ? smooth().toFixed(2) : "off");
  slider.disabled = false;
  slider.addEventListener("input", () => {
    go(() => (Number(slider.value) ? asked.set("smooth", slider.value) : asked.delete("smooth")), false);
    tell();
    repaint();
  });
  tell();
  const find = place.querySelector("[data-find]");
  if (!find) return;
  find.hidden = false;
  place.querySelector("[data-show]").hidden = true;
  find.addEventListener("input", () => {
    for (const item of place.querySelectorAll(".names li")) item.hidden = !item.textContent.includes(find.value.trim().toLowerCase());
  });
  place.querySelector(".names").addEventListener("change", (event) => pick(event.target));
}

// -- what is new ----------------------------------------------------------------------------------------------------

function isInUse(part) {
  return part.querySelector("details[open]") || part.contains(document.activeElement);
}

// One request: points above the cursor, and those fragments that say something else than what is shown.
async function pulse() {
  if (document.visibilityState !== "visible") return;
  const words = query([], { after: sheet.step || page.dataset.step });
  ["from_step", "to_step"].forEach((name) => words.delete(name));
  for (const name of asked.getAll("also")) words.append("also", name);
  if (wantsMarks) words.set("marks", "1");
  const isSlow = turn++ % SLOW_TURNS === 0;
  for (const part of page.querySelectorAll("[data-part]")) {
    const name = part.dataset.part;
    if ((isSlow || name === "now") && !isInUse(part)) words.append("part", `${name}:${digests[name] ?? ""}`);
  }
  const answer = await fetch(`${page.dataset.pulse}?${words}`);
  if (!answer.ok) return;
  const { curves, parts, changes } = await answer.json();
  for (const [name, { html, digest }] of Object.entries(parts)) swap(name, html, digest);
  if (!place) return;
  if (changes) {
    marks = changes;
    wantsMarks = false;
  }
  if (curves) grow(curves);
  else if (changes) repaint();
}

function swap(name, html, digest) {
  const part = document.getElementById(name);
  if (isInUse(part)) return; // opened while it was asked for: the next turn
  digests[name] = digest;
  htmx.swap({ text: html, target: part, swap: "innerMorph", sourceElement: part, request: {} });
}

// A zoomed window stays what it is; a chart that was not seen yet reads all of its points when it is.
function grow(curves) {
  if (isZoomed()) {
    sheet.step = Math.max(sheet.step, curves.step);
    return;
  }
  const known = seenNames();
  curves.series = Object.fromEntries(Object.entries(curves.series).filter(([name]) => known.includes(name)));
  sheet.take(curves);
  if (sheet.added > MOST_ADDED) load();
  else repaint();
}

const soon = throttled(pulse, PULSE_MS);

function take(frame) {
  for (const event of frame.events ?? []) {
    sequence = event.sequence;
    wantsMarks ||= event.kind === "config_changed";
    if (event.kind === "state_changed") {
      turn = 0;
      pulse();
    } else soon();
  }
  if (frame.at) sequence = Math.max(sequence, frame.at[page.dataset.topic] ?? 0);
}

if (place) {
  listen();
  for (const element of place.querySelectorAll(".curve")) adopt(element);
  window.addEventListener("popstate", () => location.reload());
  document.addEventListener("mouseup", () => setTimeout(() => {
    for (const chart of charts.values()) chart.isHeld = false;
  }));
  const anew = () => charts.forEach((chart) => {
    chart.destroy();
    chart.paint();
  });
  document.addEventListener("theme", anew);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
}
follow(() => `/ws/events/?topic=${page.dataset.topic}&since=${sequence}`, take);
setInterval(soon, QUIET_MS);
