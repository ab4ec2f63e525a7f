// Curves with uPlot: a large one, and small multiples with the same x and a tied hover.
import { formatNumber, padded, resolved } from "./canvas.js";

const TIED = uPlot.sync("run");
const drawn = new Map(); // chart key → { plot, names, data: name → Map(step → value) }
const WIDTHS = { reward_mean: 2, reward_human: 1.6, rated: 1.6, low: 1, high: 1 };

function seriesOf(names, isLarge) {
  const ink = resolved("ink"),
    quiet = resolved("quiet"),
    accent = resolved("accent"),
    faint = resolved("edge");
  const strokes = { reward_mean: ink, reward_human: accent, rated: accent };
  return names.map((name, n) => ({
    label: name,
    stroke: strokes[name] ?? (n ? faint : isLarge ? ink : quiet),
    width: WIDTHS[name] ?? (isLarge ? 2 : 1.3),
    points: {
      show: (chart, series) =>
        isLarge && chart.data[series].filter((value) => value != null).length === 1,
    }, // no line yet
    spanGaps: true,
  }));
}

function axes(isLarge) {
  const line = resolved("line"),
    faint = resolved("faint"),
    font = "11px ui-monospace, monospace";
  if (!isLarge) return [{ show: false }, { show: false }];
  return [
    { stroke: faint, font, grid: { show: false }, ticks: { show: false }, size: 26, space: 80 },
    {
      stroke: faint,
      font,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      size: 40,
      space: 36,
      values: (_, all) => all.map(formatNumber),
    },
  ];
}

function options(figureElement, names) {
  const isLarge = !figureElement.classList.contains("small");
  return {
    width: figureElement.clientWidth,
    height: figureElement.clientHeight,
    legend: { show: false },
    padding: isLarge ? [8, 20, 0, 0] : [4, 2, 4, 2],
    cursor: { sync: { key: TIED.key }, y: false, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time: false }, y: { range: padded } },
    axes: axes(isLarge),
    series: [{ label: "step" }, ...seriesOf(names, isLarge)],
    hooks: { setCursor: [showValues] },
  };
}

function table(chart) {
  const steps = [...new Set(chart.names.flatMap((name) => [...chart.data[name].keys()]))].sort(
    (a, b) => a - b,
  );
  return [
    steps,
    ...chart.names.map((name) => steps.map((step) => chart.data[name].get(step) ?? null)),
  ];
}

function add(chart, series) {
  for (const name of chart.names)
    series[name]?.x.forEach((step, n) => chart.data[name].set(step, series[name].y[n]));
}

// The number in the title: at the cursor while somebody points, else the newest.
function showValues(plot) {
  const at =
    plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0
      ? null
      : plot.data[0][plot.cursor.idx];
  for (const chart of drawn.values()) {
    for (const name of chart.names) {
      const points = chart.data[name];
      const value = at === null ? [...points.values()].at(-1) : points.get(at);
      for (const place of document.querySelectorAll(`[data-value="${name}"]`))
        place.textContent = formatNumber(value);
    }
  }
}

function create(element, series) {
  const key = element.dataset.chart;
  const names = element.dataset.names.split(" ");
  const chart = {
    key,
    names,
    element,
    data: Object.fromEntries(names.map((name) => [name, new Map()])),
  };
  add(chart, series);
  drawn.set(key, chart);
  paint(chart);
}

function paint(chart) {
  const data = table(chart);
  const empty = data[0].length === 0;
  const note = chart.element.querySelector(".none");
  if (note) note.hidden = !empty;
  if (empty) return;
  if (chart.plot) return chart.plot.setData(data);
  chart.element.querySelector(".sketch")?.remove();
  chart.plot = new uPlot(options(chart.element, chart.names), data, chart.element);
}

function redrawAll() {
  for (const chart of drawn.values()) {
    chart.plot?.destroy();
    chart.plot = undefined;
    paint(chart);
  }
}

function settle() {
  const first = [...drawn.values()].find((chart) => chart.plot);
  if (first) showValues(first.plot);
}

// Add these points; charts that are not there yet are made.
export function drawCharts(series) {
  for (const element of document.querySelectorAll("[data-chart]")) {
    const chart = drawn.get(element.dataset.chart);
    if (!chart) {
      create(element, series);
      continue;
    }
    add(chart, series);
    paint(chart);
  }
  settle();
}

let pending;
new ResizeObserver(() => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => {
    for (const chart of drawn.values())
      chart.plot?.setSize({ width: chart.element.clientWidth, height: chart.element.clientHeight });
  });
}).observe(document.querySelector("[data-chart]") ?? document.body);
document.addEventListener("theme", redrawAll);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
