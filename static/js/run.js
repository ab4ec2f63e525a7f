// The page of a run: shows its charts for one range of steps, and polls for new points.
import { formatNumber } from "./chart_style.js";
import { StepDrawer } from "./curves/step_drawer.js";
import { Chart } from "./curves/chart.js";
import { initCustomChart } from "./curves/custom_chart.js";
import { downloadPng } from "./curves/png.js";
import { SeriesStore } from "./curves/series_store.js";
import { fetchPart, hasChangedControls } from "./site.js";
import { subscribe, throttle } from "./stream.js";

const EVENT_POLL_MS = 6000; // after events
const POLL_MS = 15000; // numbers of sampling and waiting change without events
const SLOW_POLL_RATIO = 3; // everything except the charts is refreshed in one of so many polls
const MARK_EVENTS = ["config_changed", "state_changed", "checkpoint_asked", "groups_dropped"];
const CUSTOM_CHART_POINTS = 1000; // of a chart that fills the window
const MAX_APPENDED = 300; // points; after more, all points are loaded again, thinned

const page = document.querySelector("[data-run]");
const root = document.querySelector(".curves");
const store = new SeriesStore();
const charts = new Map(); // key → Chart
const drawer = root && new StepDrawer(document.querySelector("[data-step-drawer]"));
// The parameters of the URL that the page understands. The server shows which it doesn't.
let params = new URLSearchParams(root?.dataset.query ?? "");
const digests = {};
let marks = [],
  sequence = Number(page.dataset.sequence),
  needsMarks = false,
  pollCount = 0;

const axis = () => params.get("x") ?? "step";
const smoothing = () => Number(params.get("smooth") ?? 0);
// The charts page has one chart of any metrics.
const isCustom = root !== null && "customChart" in root.dataset;
const isLog = () => params.has("log");
const isZoomed = () => params.has("from_step") || params.has("to_step");

// -- the range of steps, and the URL

function buildQuery(names, extra = {}) {
  const query = new URLSearchParams();
  for (const name of ["x", "from_step", "to_step"])
    if (params.get(name)) query.set(name, params.get(name));
  for (const name of names) query.append("names", name);
  if (isCustom) query.set("points", CUSTOM_CHART_POINTS);
  for (const [name, value] of Object.entries(extra)) query.set(name, value);
  return query;
}

function visibleNames() {
  return [
    ...new Set(
      [...charts.values()].filter((chart) => chart.isVisible).flatMap((chart) => chart.names),
    ),
  ];
}

let latestLoad; // the latest full load; responses to earlier ones are ignored
// Load points. Returns whether the charts show what was requested, by this load or a later one.
async function load(names = visibleNames()) {
  if (!names.length) return true;
  const isAll = names.length === visibleNames().length;
  const thisLoad = isAll ? (latestLoad = {}) : latestLoad;
  const response = await fetchJson(`${page.dataset.curves}?${buildQuery(names)}`);
  if (thisLoad !== latestLoad) return true;
  showStale(response === null);
  if (!response) return false;
  if (isAll) store.clear();
  store.replace(response);
  marks = response.changes;
  redraw();
  return true;
}

// Fetch JSON. Returns null if the request failed.
async function fetchJson(url) {
  const response = await fetchPart(url);
  return response ? response.json().catch(() => null) : null;
}

// Say that the charts are not up to date, or no longer.
function showStale(isStale) {
  const line = root?.querySelector("[data-error]");
  if (!line || line.hidden === !isStale) return;
  line.textContent = isStale ? "Couldn’t load new data. The charts show the last data." : "";
  line.hidden = !isStale;
}

function currentUrl() {
  const query = params.toString();
  return root.dataset.page + (query ? `?${query}` : "");
}

function updateUrl(change, isNew = true) {
  change();
  history[isNew ? "pushState" : "replaceState"](null, "", currentUrl());
  showParams();
}

// Change the parameters and load the points. If that fails, restore the parameters.
async function navigate(change) {
  const before = params.toString();
  updateUrl(change);
  if (await load()) return;
  params = new URLSearchParams(before);
  history.replaceState(null, "", currentUrl());
  showParams();
}

function showParams() {
  for (const link of root.querySelectorAll("[data-axis]")) {
    link.toggleAttribute("aria-current", link.dataset.axis === axis());
    if (link.dataset.axis === axis()) link.setAttribute("aria-current", "true");
  }
  for (const name of ["from_step", "to_step"]) {
    const field = root.querySelector(`[data-zoom] [name=${name}]`);
    if (field !== document.activeElement) field.value = params.get(name) ?? "";
  }
  root.querySelector("[data-zoom] [name=to_step]").placeholder = store.step || page.dataset.step;
  root.querySelector("[data-full-range]").hidden = !isZoomed();
  for (const chart of charts.values()) updateLinks(chart);
}

// Update the links of a chart to what it shows.
function updateLinks(chart) {
  const csv = chart.element.querySelector("[data-csv]"),
    query = buildQuery(chart.names);
  const full = chart.element.querySelector("[data-full]");
  if (full) full.href = `${page.dataset.charts}?${query}`;
  query.delete("x");
  query.delete("points");
  csv.href = `${page.dataset.curves.replace(/curves\/$/, "curves.csv")}?${query}`;
  const link = chart.element.querySelector("h3 > a");
  if (!link) return;
  const chartParams = new URLSearchParams(params);
  chartParams.set("chart", chart.key);
  link.href = `?${chartParams}`;
}

function zoom(from, to) {
  showSteps(from - (from > 1 && store.stepsPerPoint > 1 ? store.stepsPerPoint - 1 : 0), to);
}

// Show a range of steps; "" stands for the start or end of the run.
function showSteps(from, to) {
  navigate(() => {
    for (const [name, step] of [
      ["from_step", from],
      ["to_step", to],
    ]) {
      if (step) params.set(name, step);
      else params.delete(name);
    }
  });
}

function resetZoom() {
  if (isZoomed()) showSteps("", "");
}

// -- charts

const view = {
  store,
  marks: () => marks,
  smoothing,
  axis,
  onHover: showValuesAt,
  onSelect: zoom,
  isZoomed,
  resetZoom,
  onStep: (step) => drawer.open(step),
  isLog,
  isCustom,
};

const visibility = new IntersectionObserver(
  (entries) => {
    const fresh = entries
      .filter((entry) => entry.isIntersecting)
      .map((entry) => charts.get(entry.target.dataset.curve));
    const unknown = fresh.flatMap((chart) => chart.names).filter((name) => !store.series.has(name));
    for (const chart of fresh) {
      visibility.unobserve(chart.element);
      chart.isVisible = true;
    }
    if (unknown.length) load(store.step ? [...new Set(unknown)] : undefined);
    else fresh.forEach((chart) => chart.draw());
  },
  { rootMargin: "120px" },
);

const sizeObserver = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const { plot, figure } = charts.get(target.closest(".curve").dataset.curve) ?? {};
    if (plot && (plot.width !== figure.clientWidth || plot.height !== figure.clientHeight))
      plot.setSize({ width: figure.clientWidth, height: figure.clientHeight });
  }
});

function addChart(element) {
  const chart = new Chart(element, view);
  charts.set(chart.key, chart);
  updateLinks(chart);
  const button = element.querySelector("[data-png]");
  button.hidden = false;
  button.addEventListener("click", () => {
    button.closest("details")?.removeAttribute("open");
    downloadPng(chart, describeView(), `${page.dataset.slug}-${chart.key}`);
  });
  sizeObserver.observe(chart.figure);
  visibility.observe(element);
}

function removeChart(key) {
  const chart = charts.get(key);
  if (!chart) return;
  chart.destroy();
  sizeObserver.unobserve(chart.figure);
  visibility.unobserve(chart.element);
  chart.element.remove();
  charts.delete(key);
}

// Describe the axis, the range and the points of the charts, for the title of an image.
function describeView() {
  const axisName = root.querySelector(`[data-axis="${axis()}"]`).textContent.trim();
  const scale = isLog() ? ", log scale" : "";
  const from = params.get("from_step") ?? 1;
  const to = params.get("to_step") ?? store.step;
  const range = isZoomed() ? `, steps ${from} to ${to}` : "";
  const points = describePoints() && `; ${describePoints()}`;
  return `by ${axisName}${scale}${range}${points}`;
}

// Describe what one point is, if it combines several steps.
function describePoints() {
  if (store.stepsPerPoint === 1) return "";
  const appended = store.appendedCount
    ? `; the newest ${store.appendedCount === 1 ? "point" : `${store.appendedCount} points`}: one step each`
    : "";
  return `each point: mean of ${store.stepsPerPoint} steps, band: minimum to maximum${appended}`;
}

let frameRequest;
function redraw() {
  cancelAnimationFrame(frameRequest);
  frameRequest = requestAnimationFrame(() => {
    for (const chart of charts.values()) chart.draw();
    showValuesAt(null, "");
    showParams();
  });
}

// Show the values in the titles: at the cursor, or the newest without a cursor. All charts with the
// shared cursor call this.
let lastHover;
function showValuesAt(step, markText) {
  const hover = `${step} ${markText}`;
  if (step !== null && lastHover === hover) return;
  lastHover = hover;
  const line = root.querySelector("[data-cursor-values]");
  line.textContent =
    step === null
      ? describePoints()
      : [`step ${step.toLocaleString("en")}`, formatX(step), markText].filter(Boolean).join(" · ");
  for (const element of root.querySelectorAll("[data-value]")) {
    const value = valueAt(element.dataset.value, step);
    if (value !== undefined || step !== null) element.textContent = formatNumber(value);
  }
  for (const element of root.querySelectorAll("[data-std-metric]")) {
    const value = valueAt(element.dataset.stdMetric, step);
    element.textContent = value === undefined ? "" : `± ${formatNumber(value)}`;
  }
  for (const element of root.querySelectorAll("[data-legend]"))
    if (store.has(element.dataset.legend)) element.hidden = false;
}

// Return a metric's value at a step, or its latest value for null.
function valueAt(name, step) {
  return step === null ? store.latest(name) : store.series.get(name)?.get(step)?.y;
}

function formatX(step) {
  const x = store.xByStep.get(step);
  if (axis() === "version") return `v${x}`;
  return axis() === "time" ? new Date(x * 1000).toLocaleString() : "";
}

// -- additional metrics, and the controls

function toggleMetric(checkbox) {
  const key = `also-${checkbox.value}`;
  updateUrl(() => {
    const others = params.getAll("also").filter((name) => name !== checkbox.value);
    params.delete("also");
    for (const name of checkbox.checked ? [...others, checkbox.value] : others)
      params.append("also", name);
  }, false);
  if (!checkbox.checked) return removeChart(key);
  const element = root
    .querySelector("[data-curve-template]")
    .content.firstElementChild.cloneNode(true);
  Object.assign(element.dataset, {
    curve: key,
    names: checkbox.value,
    title: checkbox.value.replaceAll("_", " "),
  });
  element.querySelector("h3").title = checkbox.closest("label").querySelector("small").textContent;
  element.querySelector("h3 > a").textContent = element.dataset.title;
  element.querySelector("h3 > b").dataset.value = checkbox.value;
  root.querySelector("[data-selected-charts]").append(element);
  addChart(element);
}

function bindControls() {
  bindLinks();
  bindZoomForm();
  bindSmoothing();
  if (isCustom) bindCustomChart();
  bindMetricSearch();
}

// Links that change the axis or the range work without loading the page again.
function bindLinks() {
  root.addEventListener("click", (event) => {
    const link = event.target.closest("[data-axis], [data-full-range], [data-newest-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if ("newestStep" in link.dataset) return drawer.open(store.step || page.dataset.step);
    if ("fullRange" in link.dataset) return resetZoom();
    navigate(() =>
      link.dataset.axis === "step" ? params.delete("x") : params.set("x", link.dataset.axis),
    );
  });
}

function bindZoomForm() {
  const form = root.querySelector("[data-zoom]");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { from_step: from, to_step: to } = event.target.elements;
    to.setCustomValidity(
      from.value && to.value && Number(to.value) < Number(from.value)
        ? "The last step must not be before the first."
        : "",
    );
    if (!event.target.reportValidity()) return;
    document.activeElement?.blur();
    showSteps(from.value, to.value);
  });
  form.addEventListener("input", () => form.elements.to_step.setCustomValidity(""));
}

function bindSmoothing() {
  const slider = root.querySelector("[data-smooth]"),
    value = root.querySelector("[data-smooth-value]");
  const showSmoothing = () => (value.textContent = smoothing() ? smoothing().toFixed(2) : "off");
  slider.disabled = false;
  slider.addEventListener("input", () => {
    updateUrl(
      () => (Number(slider.value) ? params.set("smooth", slider.value) : params.delete("smooth")),
      false,
    );
    showSmoothing();
    redraw();
  });
  showSmoothing();
}

function bindMetricSearch() {
  const search = root.querySelector("[data-metric-search]");
  if (!search) return;
  search.hidden = false;
  root.querySelector("[data-show]").hidden = true;
  search.addEventListener("input", () => {
    for (const item of root.querySelectorAll(".names li"))
      item.hidden = !item.textContent.includes(search.value.trim().toLowerCase());
  });
  if (!isCustom)
    root.querySelector(".names").addEventListener("change", (event) => toggleMetric(event.target));
}

function bindCustomChart() {
  const chart = () => [...charts.values()][0];
  const onMetricsChange = () => {
    const unknown = chart().names.filter((name) => !store.series.has(name));
    if (unknown.length) load(store.step ? unknown : undefined);
    else redraw();
  };
  initCustomChart(root, {
    chart,
    params: () => params,
    updateUrl: (change) => updateUrl(change, false),
    onMetricsChange,
    redraw,
  });
}

// -- polling

function isBeingUsed(region) {
  return (
    region.querySelector("details[open]") ||
    region.contains(document.activeElement) ||
    hasChangedControls(region)
  );
}

// Fetch new points, and the parts of the page that have changed, in one request.
async function poll() {
  if (document.visibilityState !== "visible") return;
  const query = buildQuery(isCustom ? visibleNames() : [], {
    after: store.step || page.dataset.step,
  });
  ["from_step", "to_step"].forEach((name) => query.delete(name));
  for (const name of params.getAll("also")) query.append("also", name);
  if (needsMarks && !isZoomed()) query.set("marks", "1");
  const isSlow = pollCount++ % SLOW_POLL_RATIO === 0;
  for (const region of page.querySelectorAll("[data-part]")) {
    const name = region.dataset.part;
    if ((isSlow || name === "now") && !isBeingUsed(region))
      query.append("part", `${name}:${digests[name] ?? ""}`);
  }
  const response = await fetchJson(`${page.dataset.pulse}?${query}`);
  showStale(response === null); // the next poll tries again
  if (!response) return;
  const { curves, parts, changes } = response;
  for (const [name, { html, digest }] of Object.entries(parts)) replacePart(name, html, digest);
  if (!root) return;
  if (changes) {
    marks = changes;
    needsMarks = false;
  }
  if (curves) appendPoints(curves);
  else if (changes) redraw();
}

function replacePart(name, html, digest) {
  const region = document.getElementById(name);
  if (isBeingUsed(region)) return; // it was opened during the request; the next poll replaces it
  digests[name] = digest;
  htmx.swap({ text: html, target: region, swap: "innerMorph", sourceElement: region, request: {} });
}

// Append new points. A zoomed range doesn't change. A chart that was not visible yet loads all of
// its points when it becomes visible.
function appendPoints(curves) {
  if (isZoomed()) {
    store.step = Math.max(store.step, curves.step);
    return;
  }
  if (curves.wide > 1) return load(); // so many at once that the server has thinned them
  const names = visibleNames();
  curves.series = Object.fromEntries(
    Object.entries(curves.series).filter(([name]) => names.includes(name)),
  );
  store.append(curves);
  if (store.appendedCount > MAX_APPENDED) load();
  else redraw();
}

const pollSoon = throttle(poll, EVENT_POLL_MS);

function onFrame(frame) {
  for (const event of frame.events ?? []) {
    sequence = event.sequence;
    needsMarks ||= MARK_EVENTS.includes(event.kind);
    if (event.kind === "state_changed") {
      pollCount = 0;
      poll();
    } else pollSoon();
  }
  if (frame.at) sequence = Math.max(sequence, frame.at[page.dataset.topic] ?? 0);
}

if (root) {
  bindControls();
  for (const element of root.querySelectorAll(".curve")) addChart(element);
  window.addEventListener("popstate", () => drawer.closeOnBack() || location.reload());
  document.addEventListener("mouseup", () =>
    setTimeout(() => {
      for (const chart of charts.values()) chart.isPressed = false;
    }),
  );
  const redrawAll = () =>
    charts.forEach((chart) => {
      chart.destroy();
      chart.draw();
    });
  document.addEventListener("theme", redrawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
}
subscribe(() => `/ws/events/?topic=${page.dataset.topic}&since=${sequence}`, onFrame);
setInterval(pollSoon, POLL_MS);
