// Line charts on uPlot: a large one and small multiples, with the same x axis and a shared cursor.
import { formatNumber, padRange, resolveColor } from "./chart_style.js";

const CURSOR_SYNC = uPlot.sync("run");
const charts = new Map(); // chart key → { plot, names, data: name → Map(step → value) }
const WIDTHS = { reward_mean: 2, reward_human: 1.6, rated: 1.6, low: 1, high: 1 };

function buildSeries(names, isLarge) {
  const ink = resolveColor("ink"),
    quiet = resolveColor("quiet"),
    accent = resolveColor("accent"),
    faint = resolveColor("edge");
  const strokes = { reward_mean: ink, reward_human: accent, rated: accent };
  return names.map((name, n) => ({
    label: name,
    stroke: strokes[name] ?? (n ? faint : isLarge ? ink : quiet),
    width: WIDTHS[name] ?? (isLarge ? 2 : 1.3),
    points: {
      show: (chart, series) =>
        isLarge && chart.data[series].filter((value) => value != null).length === 1,
    }, // a single point has no line
    spanGaps: true,
  }));
}

function buildAxes(isLarge) {
  const gridColor = resolveColor("line"),
    textColor = resolveColor("faint"),
    font = "11px ui-monospace, monospace";
  if (!isLarge) return [{ show: false }, { show: false }];
  return [
    { stroke: textColor, font, grid: { show: false }, ticks: { show: false }, size: 26, space: 80 },
    {
      stroke: textColor,
      font,
      grid: { stroke: gridColor, width: 1 },
      ticks: { show: false },
      size: 40,
      space: 36,
      values: (_, all) => all.map(formatNumber),
    },
  ];
}

function buildOptions(figureElement, names) {
  const isLarge = !figureElement.classList.contains("small");
  return {
    width: figureElement.clientWidth,
    height: figureElement.clientHeight,
    legend: { show: false },
    padding: isLarge ? [8, 20, 0, 0] : [4, 2, 4, 2],
    cursor: {
      sync: { key: CURSOR_SYNC.key },
      y: false,
      drag: { x: true, y: false },
      points: { size: 6 },
    },
    scales: { x: { time: false }, y: { range: padRange } },
    axes: buildAxes(isLarge),
    series: [{ label: "step" }, ...buildSeries(names, isLarge)],
    hooks: { setCursor: [showValues] },
  };
}

function buildColumns(chart) {
  const steps = [...new Set(chart.names.flatMap((name) => [...chart.data[name].keys()]))].sort(
    (a, b) => a - b,
  );
  return [
    steps,
    ...chart.names.map((name) => steps.map((step) => chart.data[name].get(step) ?? null)),
  ];
}

function addPoints(chart, series) {
  for (const name of chart.names)
    series[name]?.x.forEach((step, n) => chart.data[name].set(step, series[name].y[n]));
}

// Show the values in the titles: at the cursor, or the newest without a cursor.
function showValues(plot) {
  const step =
    plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0
      ? null
      : plot.data[0][plot.cursor.idx];
  for (const chart of charts.values()) {
    for (const name of chart.names) {
      const points = chart.data[name];
      const value = step === null ? [...points.values()].at(-1) : points.get(step);
      for (const element of document.querySelectorAll(`[data-value="${name}"]`))
        element.textContent = formatNumber(value);
    }
  }
}

function createChart(element, series) {
  const key = element.dataset.chart;
  const names = element.dataset.names.split(" ");
  const chart = {
    key,
    names,
    element,
    data: Object.fromEntries(names.map((name) => [name, new Map()])),
  };
  addPoints(chart, series);
  charts.set(key, chart);
  drawChart(chart);
}

function drawChart(chart) {
  const data = buildColumns(chart);
  const isEmpty = data[0].length === 0;
  const emptyNote = chart.element.querySelector(".none");
  if (emptyNote) emptyNote.hidden = !isEmpty;
  if (isEmpty) return;
  if (chart.plot) return chart.plot.setData(data);
  chart.element.querySelector(".sketch")?.remove();
  chart.plot = new uPlot(buildOptions(chart.element, chart.names), data, chart.element);
}

function redrawAll() {
  for (const chart of charts.values()) {
    chart.plot?.destroy();
    chart.plot = undefined;
    drawChart(chart);
  }
}

function showLatestValues() {
  const first = [...charts.values()].find((chart) => chart.plot);
  if (first) showValues(first.plot);
}

// Add points to the charts, and create charts that don't exist yet.
export function drawCharts(series) {
  for (const element of document.querySelectorAll("[data-chart]")) {
    const chart = charts.get(element.dataset.chart);
    if (!chart) {
      createChart(element, series);
      continue;
    }
    addPoints(chart, series);
    drawChart(chart);
  }
  showLatestValues();
}

let frameRequest;
new ResizeObserver(() => {
  cancelAnimationFrame(frameRequest);
  frameRequest = requestAnimationFrame(() => {
    for (const chart of charts.values())
      chart.plot?.setSize({ width: chart.element.clientWidth, height: chart.element.clientHeight });
  });
}).observe(document.querySelector("[data-chart]") ?? document.body);
document.addEventListener("theme", redrawAll);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
