// Curves with uPlot: a large one (of the reward, or of the loss), small multiples with the same x and a tied hover.
const TIED = uPlot.sync("run");
const drawn = new Map(); // chart key → { plot, names, data: name → Map(step → value) }
let marks = []; // changes of the configuration: {step, words}
const WIDTHS = { reward_mean: 2, reward_human: 1.6, reward_machine: 1.4, said: 1.6, low: 1, high: 1 };

// light-dark() must be resolved by the browser before a canvas can use it.
function resolved(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function faded(css, alpha) {
  return css.startsWith("oklch(") ? css.replace(/(\s*\/[^)]*)?\)$/, ` / ${alpha})`) : css;
}

export function figure(value) {
  if (value === undefined || value === null) return "";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 0.1 ? value.toFixed(2) : String(Number(value.toPrecision(2)));
}

function seriesOf(names, isLarge) {
  const ink = resolved("ink"), quiet = resolved("quiet"), accent = resolved("accent"), faint = resolved("edge");
  const strokes = { reward_mean: ink, reward_human: accent, reward_machine: quiet, wait_seconds: faint, said: accent };
  return names.map((name, n) => ({
    label: name,
    stroke: strokes[name] ?? (n ? faint : isLarge ? ink : quiet),
    width: WIDTHS[name] ?? (isLarge ? 2 : 1.3),
    dash: name === "reward_machine" ? [4, 3] : undefined,
    points: { show: (chart, series) => isLarge && chart.data[series].filter((value) => value != null).length === 1 }, // no line yet
    spanGaps: true,
  }));
}

function axes(isLarge) {
  const line = resolved("line"), faint = resolved("faint"), font = "11px ui-monospace, monospace";
  if (!isLarge) return [{ show: false }, { show: false }];
  return [
    { stroke: faint, font, grid: { show: false }, ticks: { show: false }, size: 26, space: 80 },
    { stroke: faint, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 40, space: 36, values: (_, all) => all.map(figure) },
  ];
}

function options(figureElement, names, isReward) {
  const isLarge = !figureElement.classList.contains("small");
  const lines = isReward ? ["reward_mean", "low", "high", "reward_human", "reward_machine"] : names;
  const series = seriesOf(lines, isLarge);
  const band = faded(resolved("ink"), 0.08);
  if (isReward) for (const n of [1, 2]) Object.assign(series[n], { stroke: "transparent", width: 0 });
  return {
    width: figureElement.clientWidth,
    height: figureElement.clientHeight,
    legend: { show: false },
    padding: isLarge ? [8, 20, 0, 0] : [4, 2, 4, 2],
    cursor: { sync: { key: TIED.key }, y: false, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time: false }, y: isReward ? { range: (_, low, high) => [Math.min(0, low), Math.max(1, high)] } : { range: padded } },
    axes: axes(isLarge),
    series: [{ label: "step" }, ...series],
    bands: isReward ? [{ series: [3, 2], fill: band }] : [],
    hooks: { setCursor: [showValues], draw: isLarge ? [drawMarks] : [] },
  };
}

// A dotted line where the configuration was changed, with what changed.
function drawMarks(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = resolved("faint");
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.font = `${11 * devicePixelRatio}px ui-monospace, monospace`;
  marks.forEach((mark, row) => {
    const x = plot.valToPos(mark.step, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
    const room = (ctx.textAlign === "right" ? -5 : 5) * devicePixelRatio;
    ctx.fillText(mark.words, x + room, bbox.top + bbox.height - (8 + 14 * (row % 4)) * devicePixelRatio);
  });
  ctx.restore();
}

function padded(_, low, high) {
  if (low === null) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

function table(chart) {
  const steps = [...new Set(chart.names.flatMap((name) => [...chart.data[name].keys()]))].sort((a, b) => a - b);
  const column = (name) => steps.map((step) => chart.data[name].get(step) ?? null);
  if (chart.key !== "reward") return [steps, ...chart.names.map(column)];
  const mean = column("reward_mean"), spread = column("reward_std");
  const off = (sign) => mean.map((value, n) => (value === null || spread[n] === null ? null : value + sign * spread[n]));
  return [steps, mean, off(-1), off(1), column("reward_human"), column("reward_machine")];
}

function add(chart, series) {
  for (const name of chart.names) series[name]?.x.forEach((step, n) => chart.data[name].set(step, series[name].y[n]));
}

// The number in the title: at the cursor while somebody points, else the newest.
function showValues(plot) {
  const at = plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0 ? null : plot.data[0][plot.cursor.idx];
  for (const chart of drawn.values()) {
    for (const name of chart.names) {
      const points = chart.data[name];
      const value = at === null ? [...points.values()].at(-1) : points.get(at);
      for (const place of document.querySelectorAll(`[data-value="${name}"]`)) place.textContent = figure(value);
    }
  }
}

function showLegend(series) {
  for (const item of document.querySelectorAll("[data-legend]")) if (series[item.dataset.legend]?.x.length) item.hidden = false;
}

function create(element, series) {
  const key = element.dataset.chart;
  const names = element.dataset.names.split(" ");
  const chart = { key, names, element, data: Object.fromEntries(names.map((name) => [name, new Map()])) };
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
  chart.plot = new uPlot(options(chart.element, chart.names, chart.key === "reward"), data, chart.element);
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
export function drawCharts(series, changes) {
  marks = changes;
  for (const element of document.querySelectorAll("[data-chart]")) {
    const chart = drawn.get(element.dataset.chart);
    if (!chart) {
      create(element, series);
      continue;
    }
    add(chart, series);
    paint(chart);
  }
  showLegend(series);
  settle();
}

let pending;
new ResizeObserver(() => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => {
    for (const chart of drawn.values()) chart.plot?.setSize({ width: chart.element.clientWidth, height: chart.element.clientHeight });
  });
}).observe(document.querySelector("[data-chart]") ?? document.body);
document.addEventListener("theme", redrawAll);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
