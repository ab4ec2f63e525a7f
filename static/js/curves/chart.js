// One chart on uPlot: a line for each metric, bands for its spread and for the range of combined
// steps, and marks of configuration changes.
import { formatNumber, padRange, resolveColor, withAlpha } from "../chart_style.js";
import { smooth } from "./series_store.js";
import { handleTouch } from "./touch_selection.js";

const CURSOR_SYNC = uPlot.sync("run");
const SPREAD_METRICS = { reward_mean: "reward_std", reward_human: "reward_human_std" };
const COLORS = {
  reward_mean: "ink",
  reward_human: "accent",
  reward_simulated: "edge",
  reward_rule: "quiet",
  reward_model: "quiet",
  reward_environment: "quiet",
  reward_machine: "quiet",
  people_per_h: "accent",
  simulated_per_h: "edge",
  starved_people: "accent",
  starved_judging: "r-low",
  starved_sampling: "r-high",
  wait_seconds: "edge",
}; // as in the whole site, the accent color stands for people and gray for machines
const DASHES = {
  reward_simulated: [2, 2],
  reward_rule: [4, 3],
  reward_machine: [4, 3],
  reward_model: [1, 3],
  reward_environment: [8, 3],
};
// Steps are whole numbers.
const WHOLE_NUMBERS = Array.from(
  { length: 30 },
  (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3),
);
const MARK_HOVER_PX = 6;
const MAX_CLICK_PX = 4; // a pointer that moves further is dragging
const DOUBLE_CLICK_MS = 250; // a second click within this time resets the zoom

// Lines of metrics that a person selected.
const CUSTOM_COLORS = ["ink", "accent", "r-low", "good", "bad", "r-high", "warn", "edge"];
const CUSTOM_DASHES = [undefined, [6, 3], [2, 3]];

// Return the color of a metric's line, by its index in the chart.
function colorOf(name, n, isLarge, isCustom) {
  if (isCustom) return CUSTOM_COLORS[n % CUSTOM_COLORS.length];
  return COLORS[name] ?? (n ? "edge" : isLarge ? "ink" : "quiet");
}

// Return the dash pattern of a metric's line. Selected metrics use the colors again with another
// pattern.
function dashOf(name, n, isCustom) {
  return isCustom
    ? CUSTOM_DASHES[Math.floor(n / CUSTOM_COLORS.length) % CUSTOM_DASHES.length]
    : DASHES[name];
}

// Return the value, or null if a log scale can't show it.
function forScale(value, isLog) {
  return isLog && value <= 0 ? null : value;
}

// Return what uPlot draws of these metrics: columns of data, series and bands.
function buildLayout(names, store, { smoothing, isLarge, isLog, isCustom }) {
  const steps = store.steps(names);
  const columns = [];
  const series = [];
  const bands = [];
  const spreadMetrics = new Set(Object.values(SPREAD_METRICS));
  const addLine = (label, values, style) => {
    series.push({ label, spanGaps: true, points: { show: false }, ...style });
    columns.push(values.map((value) => forScale(value, isLog)));
  };
  const addBand = (high, low, fill) => {
    addLine("", high, { stroke: "transparent", width: 0 });
    addLine("", low, { stroke: "transparent", width: 0 });
    bands.push({ series: [series.length - 1, series.length], fill });
  };
  names
    .filter((name) => !spreadMetrics.has(name))
    .forEach((name, n) => {
      if (!store.has(name)) return;
      const values = store.column(name, steps);
      const stroke = resolveColor(colorOf(name, n, isLarge, isCustom));
      const spread = SPREAD_METRICS[name];
      if (spread && store.has(spread)) {
        const spreadValues = store.column(spread, steps);
        addBand(
          shift(values, spreadValues, 1),
          shift(values, spreadValues, -1),
          withAlpha(stroke, 0.08),
        );
      }
      if (store.hasBand(name))
        addBand(
          store.column(name, steps, "high"),
          store.column(name, steps, "low"),
          withAlpha(stroke, 0.16),
        );
      const style = {
        stroke,
        width: isLarge ? (n ? 1.5 : 2) : 1.3,
        dash: dashOf(name, n, isCustom),
      };
      const singlePoint = {
        points: { show: values.filter((value) => value !== null).length === 1, size: 4 },
      }; // a single point has no line
      if (smoothing) addLine(name, values, { ...style, stroke: withAlpha(stroke, 0.25), width: 1 });
      addLine(name, smoothing ? smooth(values, smoothing) : values, { ...style, ...singlePoint });
    });
  return { steps, data: [steps.map((step) => store.xByStep.get(step)), ...columns], series, bands };
}

// Return values plus or minus their spread; null where either is missing.
function shift(values, spreadValues, sign) {
  return values.map((value, n) =>
    value === null || spreadValues[n] === null ? null : value + sign * spreadValues[n],
  );
}

// Format times on the x axis: the time of day, or the date if they are days apart.
function formatTimes(_, times, __, ___, spacing) {
  const style =
    spacing >= 86_400
      ? { day: "numeric", month: "short" }
      : {
          hour: "2-digit",
          minute: "2-digit",
          hourCycle: "h23",
          ...(spacing < 60 && { second: "2-digit" }),
        };
  return times.map((time) => new Intl.DateTimeFormat([], style).format(time * 1000));
}

function buildAxes(isLarge, isTime) {
  if (!isLarge) return [{ show: false }, { show: false }];
  const line = resolveColor("line"),
    stroke = resolveColor("faint"),
    font = "11px ui-monospace, monospace";
  return [
    {
      stroke,
      font,
      grid: { show: false },
      ticks: { show: false },
      size: 26,
      space: 80,
      ...(isTime ? { values: formatTimes } : { incrs: WHOLE_NUMBERS }),
    },
    {
      stroke,
      font,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      size: 48,
      space: 36,
      values: (_, all) => all.map(formatNumber),
    },
  ];
}

const MARK_ROWS = 4; // rows of descriptions
const MARK_DISTANCE = 4; // pixels between two lines; marks that are closer share one

// Draw a dotted line at each configuration change, with a description in the large chart. A
// description for which there is no room is shown at the cursor only.
function drawMarks(plot, marks, isLarge) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = resolveColor("quiet");
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.font = `${11 * devicePixelRatio}px ui-monospace, monospace`;
  const placed = marks
    .map(({ x, words }) => ({ words, x: plot.valToPos(x, "x", true) }))
    .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
  let lastLine = -Infinity;
  for (const { x } of placed.toSorted((a, b) => a.x - b.x)) {
    if (x - lastLine < MARK_DISTANCE * devicePixelRatio) continue;
    lastLine = x;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  if (isLarge) describeMarks(plot, placed);
  ctx.restore();
}

function describeMarks({ ctx, bbox }, placed) {
  const rows = Array.from({ length: MARK_ROWS }, () => []); // the spans that are taken
  const margin = 3 * devicePixelRatio;
  for (const { x, words } of placed) {
    const width = ctx.measureText(words).width;
    const isRight = x > bbox.left + bbox.width / 2;
    const left = isRight ? x - width - 8 * devicePixelRatio : x + 8 * devicePixelRatio;
    const [start, end] = [left - margin, left + width + margin];
    const row = rows.findIndex((spans) => spans.every(([from, to]) => end < from || start > to));
    if (row < 0) continue;
    rows[row].push([start, end]);
    const y = bbox.top + bbox.height - (8 + 16 * row) * devicePixelRatio;
    ctx.fillStyle = withAlpha(resolveColor("sheet"), 0.8);
    ctx.fillRect(start, y - 11 * devicePixelRatio, end - start, 15 * devicePixelRatio);
    ctx.fillStyle = resolveColor("quiet");
    ctx.fillText(words, left, y);
  }
}

export class Chart {
  // `page` provides {store, marks(), smoothing(), axis(), onHover(step, words), onSelect(fromStep,
  // toStep), isZoomed(), resetZoom(), onStep(step), isLog(), isCustom}.
  constructor(element, page) {
    this.element = element;
    this.page = page;
    this.key = element.dataset.curve;
    this.names = element.dataset.names.split(" ");
    this.isLarge = element.classList.contains("large");
    this.figure = element.querySelector("figure");
    this.isVisible = false;
    const labels = (element.dataset.labels ?? "").split("|");
    this.labels = new Map(this.names.map((name, n) => [name, labels[n] || ""]));
    this.#styleLegend();
  }

  // Give each legend entry the color and dash pattern of its line.
  #styleLegend() {
    const lineNames = this.names.filter((name) => !Object.values(SPREAD_METRICS).includes(name));
    for (const key of this.element.querySelectorAll("[data-key]")) {
      const name = key.dataset.key,
        n = lineNames.indexOf(name),
        dash = dashOf(name, n, this.page.isCustom);
      key.style.borderTopColor = `var(--${colorOf(name, n, this.isLarge, this.page.isCustom)})`;
      key.style.borderTopStyle = dash ? (dash[0] > 1 ? "dashed" : "dotted") : "solid";
    }
  }

  get title() {
    return this.element.dataset.title;
  }

  // Show other metrics: name → label. The element already contains their legend.
  show(title, labels) {
    this.element.dataset.title = title;
    this.figure.setAttribute("aria-label", title);
    this.names = [...labels.keys()];
    this.labels = labels;
    this.key = "own";
    this.#styleLegend();
    this.draw();
  }

  layout() {
    const { store, isCustom } = this.page;
    return buildLayout(this.names, store, {
      smoothing: this.page.smoothing(),
      isLarge: this.isLarge,
      isLog: this.page.isLog(),
      isCustom,
    });
  }

  draw() {
    if (!this.isVisible || this.isPressed) return;
    const { steps, data, series, bands } = this.layout();
    this.steps = steps;
    const hasValues = data.slice(1).some((column) => column.some((value) => value !== null));
    this.figure.querySelector(".none").hidden = hasValues;
    if (!hasValues) {
      this.figure.querySelector(".sketch")?.remove();
      return this.destroy();
    }
    this.figure.querySelector(".sketch")?.remove();
    const signature = `${this.page.axis()} ${this.page.isLog()} ${bands.length} ${series.map((one) => `${one.label}${one.points.show}`)}`;
    if (this.plot && this.signature === signature) return this.plot.setData(data);
    this.destroy();
    this.signature = signature;
    this.plot = new uPlot(this.options(series, bands, this.figure), data, this.figure);
    this.plot.over.addEventListener("mousedown", (event) => {
      this.isPressed = true;
      this.pressedAt = event.clientX;
    });
    this.plot.over.addEventListener("click", (event) => this.#onClick(event));
    this.plot.over.addEventListener("dblclick", () => this.page.resetZoom());
    handleTouch(
      this.plot,
      (isPressed) => {
        this.isPressed = isPressed;
      },
      (left, width) => this.#selectRange(left, width),
    );
  }

  destroy() {
    this.plot?.destroy();
    this.plot = undefined;
  }

  options(series, bands, { clientWidth: width, clientHeight: height }, isLarge = this.isLarge) {
    const isReward = this.key === "reward",
      isLog = this.page.isLog();
    return {
      width,
      height,
      series: [{ label: "x" }, ...series],
      bands,
      axes: buildAxes(isLarge, this.page.axis() === "time"),
      legend: { show: false },
      padding: isLarge ? [8, 20, 0, 0] : [4, 2, 4, 2],
      cursor: {
        sync: { key: CURSOR_SYNC.key },
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
      },
      scales: {
        x: { time: this.page.axis() === "time" },
        y: isLog
          ? { distr: 3 }
          : {
              range: isReward ? (_, low, high) => [Math.min(0, low), Math.max(1, high)] : padRange,
            },
      },
      hooks: {
        draw: [(plot) => drawMarks(plot, this.page.marks(), isLarge)],
        setCursor: [(plot) => this.#onCursor(plot)],
        setSelect: [(plot) => this.#onSelection(plot)],
      },
    };
  }

  #onCursor(plot) {
    const index = plot.cursor.left < 0 ? null : plot.cursor.idx;
    if (index === null || index === undefined) return this.page.onHover(null, "");
    const isNear = (mark) =>
      Math.abs(plot.valToPos(mark.x, "x") - plot.cursor.left) <= MARK_HOVER_PX;
    this.page.onHover(
      this.steps[index],
      this.page
        .marks()
        .filter(isNear)
        .map((mark) => mark.words)
        .join(" · "),
    );
  }

  // A click opens the step. In a zoomed chart, wait whether a double click follows, which resets
  // the zoom.
  #onClick(event) {
    clearTimeout(this.opening);
    if (event.detail > 1 || Math.abs(event.clientX - this.pressedAt) >= MAX_CLICK_PX) return;
    const step = this.steps[this.plot.posToIdx(event.offsetX)];
    if (this.page.isZoomed())
      this.opening = setTimeout(() => this.page.onStep(step), DOUBLE_CLICK_MS);
    else this.page.onStep(step);
  }

  #onSelection(plot) {
    const { left, width } = plot.select,
      isSource = this.isPressed;
    this.isPressed = false;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    // Otherwise it was a click, or the selection of another chart with the same cursor.
    if (isSource && width >= 4) this.#selectRange(left, width);
  }

  #selectRange(left, width) {
    const [from, to] = [left, left + width].map((x) => this.steps[this.plot.posToIdx(x)]);
    if (to > from) this.page.onSelect(from, to);
  }
}
