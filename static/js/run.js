// A run's page: its charts over one window of steps, and one request now and then for what is new.
import { formatNumber } from "./canvas.js";
import { StepDrawer } from "./curves/drawer.js";
import { Chart } from "./curves/plot.js";
import { ownControls } from "./curves/own.js";
import { download } from "./curves/png.js";
import { Sheet } from "./curves/sheet.js";
import { follow, throttled } from "./stream.js";

const PULSE_MS = 6000; // for what events announce
const QUIET_MS = 15000; // sampling and waiting move without events
const SLOW_TURNS = 3; // how many pulses what stands beside the charts waits for
const MARKED = ["config_changed", "state_changed", "checkpoint_asked", "groups_dropped"];
const OWN_POINTS = 1000; // of the chart that is as large as the window
const MOST_ADDED = 300; // points, until the whole is read again in fewer

const page = document.querySelector("[data-run]");
const place = document.querySelector(".curves");
const sheet = new Sheet();
const charts = new Map(); // key → Chart
const drawer = place && new StepDrawer(document.querySelector("[data-step-drawer]"));
// What of the address means something: the server says beside the charts what does not.
let params = new URLSearchParams(place?.dataset.query ?? "");
const digests = {};
let marks = [],
  sequence = Number(page.dataset.sequence),
  wantsMarks = false,
  turn = 0;

const axis = () => params.get("x") ?? "step";
const smooth = () => Number(params.get("smooth") ?? 0);
const isOwn = place !== null && "own" in place.dataset; // the charts page: one chart of any metrics
const isLog = () => params.has("log");
const isZoomed = () => params.has("from_step") || params.has("to_step");

// -- the window of steps, and what stands in the address
// ----------------------------------------

function query(names, more = {}) {
  const words = new URLSearchParams();
  for (const name of ["x", "from_step", "to_step"])
    if (params.get(name)) words.set(name, params.get(name));
  for (const name of names) words.append("names", name);
  if (isOwn) words.set("points", OWN_POINTS);
  for (const [name, value] of Object.entries(more)) words.set(name, value);
  return words;
}

function seenNames() {
  return [
    ...new Set(
      [...charts.values()].filter((chart) => chart.isSeen).flatMap((chart) => chart.names),
    ),
  ];
}

let loading; // the newest read of the whole; an older one that answers later is let go
// Returns whether the charts now show the requested data, from this read or a newer one.
async function load(names = seenNames()) {
  if (!names.length) return true;
  const isAll = names.length === seenNames().length;
  const mine = isAll ? (loading = {}) : loading;
  const answer = await read(`${page.dataset.curves}?${query(names)}`);
  if (mine !== loading) return true;
  tellTrouble(answer ? "" : "Couldn’t load new data. The charts show the last data.");
  if (!answer) return false;
  if (isAll) sheet.clear();
  sheet.read(answer);
  marks = answer.changes;
  repaint();
  return true;
}

// An answer of the server, or null: it could not be reached, or refused.
async function read(address) {
  try {
    const answer = await fetch(address);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

function tellTrouble(words) {
  const line = place.querySelector("[data-trouble]");
  line.textContent = words;
  line.hidden = !words;
}

function address() {
  const words = params.toString();
  return place.dataset.page + (words ? `?${words}` : "");
}

function go(change, isNew = true) {
  change();
  history[isNew ? "pushState" : "replaceState"](null, "", address());
  settle();
}

// Show something else; where that cannot be read, the address says again what is shown.
async function turnTo(change) {
  const before = params.toString();
  go(change);
  if (await load()) return;
  params = new URLSearchParams(before);
  history.replaceState(null, "", address());
  settle();
}

function settle() {
  for (const link of place.querySelectorAll("[data-axis]")) {
    link.toggleAttribute("aria-current", link.dataset.axis === axis());
    if (link.dataset.axis === axis()) link.setAttribute("aria-current", "true");
  }
  for (const name of ["from_step", "to_step"]) {
    const field = place.querySelector(`[data-zoom] [name=${name}]`);
    if (field !== document.activeElement) field.value = params.get(name) ?? "";
  }
  place.querySelector("[data-zoom] [name=to_step]").placeholder = sheet.step || page.dataset.step;
  place.querySelector("[data-whole]").hidden = !isZoomed();
  for (const chart of charts.values()) retarget(chart);
}

// Links beside a chart lead to what it shows.
function retarget(chart) {
  const csv = chart.element.querySelector("[data-csv]"),
    words = query(chart.names);
  const full = chart.element.querySelector("[data-full]");
  if (full) full.href = `${page.dataset.charts}?${words}`;
  words.delete("x");
  words.delete("points");
  csv.href = `${page.dataset.curves.replace(/curves\/$/, "curves.csv")}?${words}`;
  const link = chart.element.querySelector("h3 > a");
  if (!link) return;
  const there = new URLSearchParams(params);
  there.set("chart", chart.key);
  link.href = `?${there}`;
}

function zoom(from, to) {
  show(from - (from > 1 && sheet.wide > 1 ? sheet.wide - 1 : 0), to);
}

// These steps; "" for the run's own end.
function show(from, to) {
  turnTo(() => {
    for (const [name, step] of [
      ["from_step", from],
      ["to_step", to],
    ]) {
      if (step) params.set(name, step);
      else params.delete(name);
    }
  });
}

function whole() {
  if (isZoomed()) show("", "");
}

// -- charts
// ----------------------------------------

const view = {
  sheet,
  marks: () => marks,
  smooth,
  axis,
  pointed,
  picked: zoom,
  isZoomed,
  whole,
  opened: (step) => drawer.open(step),
  isLog,
  isOwn,
};

const seeing = new IntersectionObserver(
  (entries) => {
    const fresh = entries
      .filter((entry) => entry.isIntersecting)
      .map((entry) => charts.get(entry.target.dataset.curve));
    const unknown = fresh.flatMap((chart) => chart.names).filter((name) => !sheet.series.has(name));
    for (const chart of fresh) {
      seeing.unobserve(chart.element);
      chart.isSeen = true;
    }
    if (unknown.length) load(sheet.step ? [...new Set(unknown)] : undefined);
    else fresh.forEach((chart) => chart.paint());
  },
  { rootMargin: "120px" },
);

const sizing = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const { plot, figure: box } = charts.get(target.closest(".curve").dataset.curve) ?? {};
    if (plot && (plot.width !== box.clientWidth || plot.height !== box.clientHeight))
      plot.setSize({ width: box.clientWidth, height: box.clientHeight });
  }
});

function adopt(element) {
  const chart = new Chart(element, view);
  charts.set(chart.key, chart);
  retarget(chart);
  const button = element.querySelector("[data-png]");
  button.hidden = false;
  button.addEventListener("click", () => {
    button.closest("details")?.removeAttribute("open");
    download(chart, wordsOfView(), `${page.dataset.slug}-${chart.key}`);
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
  const scale = isLog() ? ", log scale" : "";
  const against = place.querySelector(`[data-axis="${axis()}"]`).textContent.trim();
  return `by ${against}${scale}${isZoomed() ? `, steps ${params.get("from_step") ?? 1} to ${params.get("to_step") ?? sheet.step}` : ""}${grain() && `; ${grain()}`}`;
}

// What one point of a curve is, when it is not one step.
function grain() {
  if (sheet.wide === 1) return "";
  const live = sheet.added
    ? `; the newest ${sheet.added === 1 ? "point" : `${sheet.added} points`}: one step each`
    : "";
  return `each point: mean of ${sheet.wide} steps, band: minimum to maximum${live}`;
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

// The numbers in the titles: at the cursor while somebody points, else the newest. Every tied chart
// says where that is.
let told;
function pointed(step, words) {
  const here = `${step} ${words}`;
  if (step !== null && told === here) return;
  told = here;
  const at = place.querySelector("[data-at]");
  at.textContent =
    step === null
      ? grain()
      : [`step ${step.toLocaleString("en")}`, placed(step), words].filter(Boolean).join(" · ");
  for (const element of place.querySelectorAll("[data-value]")) {
    const name = element.dataset.value,
      value = step === null ? sheet.newest(name) : sheet.series.get(name)?.get(step)?.y;
    if (value !== undefined || step !== null) element.textContent = formatNumber(value);
  }
  for (const element of place.querySelectorAll("[data-spread]")) {
    const name = element.dataset.spread,
      value = step === null ? sheet.newest(name) : sheet.series.get(name)?.get(step)?.y;
    element.textContent = value === undefined ? "" : `± ${formatNumber(value)}`;
  }
  for (const element of place.querySelectorAll("[data-legend]"))
    if (sheet.has(element.dataset.legend)) element.hidden = false;
}

function placed(step) {
  const x = sheet.places.get(step);
  if (axis() === "version") return `v${x}`;
  return axis() === "time" ? new Date(x * 1000).toLocaleString() : "";
}

// -- what is picked besides
// ----------------------------------------

function pick(box) {
  const key = `also-${box.value}`;
  go(() => {
    const others = params.getAll("also").filter((name) => name !== box.value);
    params.delete("also");
    for (const name of box.checked ? [...others, box.value] : others) params.append("also", name);
  }, false);
  if (!box.checked) return dismiss(key);
  const element = place
    .querySelector("[data-curve-template]")
    .content.firstElementChild.cloneNode(true);
  Object.assign(element.dataset, {
    curve: key,
    names: box.value,
    title: box.value.replaceAll("_", " "),
  });
  element.querySelector("h3").title = box.closest("label").querySelector("small").textContent;
  element.querySelector("h3 > a").textContent = element.dataset.title;
  element.querySelector("h3 > b").dataset.value = box.value;
  place.querySelector("[data-picked]").append(element);
  adopt(element);
}

function listen() {
  place.addEventListener("click", (event) => {
    const link = event.target.closest("[data-axis], [data-whole], [data-newest-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if ("newestStep" in link.dataset) return drawer.open(sheet.step || page.dataset.step);
    if ("whole" in link.dataset) return whole();
    turnTo(() =>
      link.dataset.axis === "step" ? params.delete("x") : params.set("x", link.dataset.axis),
    );
  });
  place.querySelector("[data-zoom]").addEventListener("submit", (event) => {
    event.preventDefault();
    const { from_step: from, to_step: to } = event.target.elements;
    to.setCustomValidity(
      from.value && to.value && Number(to.value) < Number(from.value)
        ? "The last step must not be before the first."
        : "",
    );
    if (!event.target.reportValidity()) return;
    document.activeElement?.blur();
    show(from.value, to.value);
  });
  place
    .querySelector("[data-zoom]")
    .addEventListener("input", (event) => event.target.form.elements.to_step.setCustomValidity(""));
  const slider = place.querySelector("[data-smooth]"),
    label = place.querySelector("[data-smooth-value]");
  const tell = () => (label.textContent = smooth() ? smooth().toFixed(2) : "off");
  slider.disabled = false;
  slider.addEventListener("input", () => {
    go(
      () => (Number(slider.value) ? params.set("smooth", slider.value) : params.delete("smooth")),
      false,
    );
    tell();
    repaint();
  });
  tell();
  if (isOwn) listenToOwn();
  const find = place.querySelector("[data-find]");
  if (!find) return;
  find.hidden = false;
  place.querySelector("[data-show]").hidden = true;
  find.addEventListener("input", () => {
    for (const item of place.querySelectorAll(".names li"))
      item.hidden = !item.textContent.includes(find.value.trim().toLowerCase());
  });
  if (!isOwn)
    place.querySelector(".names").addEventListener("change", (event) => pick(event.target));
}

function listenToOwn() {
  const chart = () => [...charts.values()][0];
  const shown = () => {
    const unknown = chart().names.filter((name) => !sheet.series.has(name));
    if (unknown.length) load(sheet.step ? unknown : undefined);
    else repaint();
  };
  ownControls(place, {
    chart,
    params: () => params,
    go: (change) => go(change, false),
    shown,
    repaint,
  });
}

// -- what is new
// ----------------------------------------

function isInUse(part) {
  return part.querySelector("details[open]") || part.contains(document.activeElement);
}

// One request: points above the cursor, and those fragments that say something else than what is
// shown.
async function pulse() {
  if (document.visibilityState !== "visible") return;
  const words = query(isOwn ? seenNames() : [], { after: sheet.step || page.dataset.step });
  ["from_step", "to_step"].forEach((name) => words.delete(name));
  for (const name of params.getAll("also")) words.append("also", name);
  if (wantsMarks && !isZoomed()) words.set("marks", "1");
  const isSlow = turn++ % SLOW_TURNS === 0;
  for (const part of page.querySelectorAll("[data-part]")) {
    const name = part.dataset.part;
    if ((isSlow || name === "now") && !isInUse(part))
      words.append("part", `${name}:${digests[name] ?? ""}`);
  }
  const answer = await read(`${page.dataset.pulse}?${words}`);
  if (!answer) return; // the next turn asks again
  const { curves, parts, changes } = answer;
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

// A zoomed window stays what it is; a chart that was not seen yet reads all of its points when it
// is.
function grow(curves) {
  if (isZoomed()) {
    sheet.step = Math.max(sheet.step, curves.step);
    return;
  }
  if (curves.wide > 1) return load(); // so many at once that they are thinned by themselves
  const seen = seenNames();
  curves.series = Object.fromEntries(
    Object.entries(curves.series).filter(([name]) => seen.includes(name)),
  );
  sheet.take(curves);
  if (sheet.added > MOST_ADDED) load();
  else repaint();
}

const soon = throttled(pulse, PULSE_MS);

function take(frame) {
  for (const event of frame.events ?? []) {
    sequence = event.sequence;
    wantsMarks ||= MARKED.includes(event.kind);
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
  window.addEventListener("popstate", () => drawer.left() || location.reload());
  document.addEventListener("mouseup", () =>
    setTimeout(() => {
      for (const chart of charts.values()) chart.isHeld = false;
    }),
  );
  const redrawAll = () =>
    charts.forEach((chart) => {
      chart.destroy();
      chart.paint();
    });
  document.addEventListener("theme", redrawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
}
follow(() => `/ws/events/?topic=${page.dataset.topic}&since=${sequence}`, take);
setInterval(soon, QUIET_MS);
