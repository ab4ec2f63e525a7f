// One chart on uPlot: a line for each metric, bands of its spread and of what its points hold,
// marks of changes.
import { faded, formatNumber, padded, resolved } from "../canvas.js";
import { smoothed } from "./sheet.js";
import { followFinger } from "./touch.js";

const TIED = uPlot.sync("run");
const SPREADS = { reward_mean: "reward_std", reward_human: "reward_human_std" };
const INKS = {
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
}; // as people's marks are everywhere: theirs are the accent, machines' are grey
const DASHES = {
  reward_simulated: [2, 2],
  reward_rule: [4, 3],
  reward_machine: [4, 3],
  reward_model: [1, 3],
  reward_environment: [8, 3],
};
// Steps have no fractions.
const WHOLE = Array.from({ length: 30 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3));
const NEAR_PX = 6;
const CLICK_PX = 4; // a pointer that moves further drags
const DOUBLE_MS = 250; // a second click within this time shows the whole run

// Of lines that people chose.
const PALETTE = ["ink", "accent", "r-low", "good", "bad", "r-high", "warn", "edge"];
const PATTERNS = [undefined, [6, 3], [2, 3]];

// The colour of a metric's line, by its place among those of its chart.
function inkOf(name, n, isLarge, isOwn) {
  if (isOwn) return PALETTE[n % PALETTE.length];
  return INKS[name] ?? (n ? "edge" : isLarge ? "ink" : "quiet");
}

// Lines that people chose repeat their colours with another pattern.
function dashOf(name, n, isOwn) {
  return isOwn ? PATTERNS[Math.floor(n / PALETTE.length) % PATTERNS.length] : DASHES[name];
}

// What a log scale has of a value: nothing of zero and below.
function scaled(value, isLog) {
  return isLog && value <= 0 ? null : value;
}

// What is drawn of these metrics: columns of uPlot, its series and its bands.
function layout(names, sheet, { smooth, isLarge, isLog, isOwn }) {
  const steps = sheet.steps(names),
    columns = [],
    series = [],
    bands = [];
  const spreads = new Set(Object.values(SPREADS));
  const add = (label, values, look) =>
    series.push({ label, spanGaps: true, points: { show: false }, ...look }) &&
    columns.push(values.map((value) => scaled(value, isLog)));
  const band = (high, low, fill) => {
    add("", high, { stroke: "transparent", width: 0 });
    add("", low, { stroke: "transparent", width: 0 });
    bands.push({ series: [series.length - 1, series.length], fill });
  };
  names
    .filter((name) => !spreads.has(name))
    .forEach((name, n) => {
      if (!sheet.has(name)) return;
      const values = sheet.column(name, steps),
        stroke = resolved(inkOf(name, n, isLarge, isOwn));
      const spread =
        SPREADS[name] && sheet.has(SPREADS[name]) ? sheet.column(SPREADS[name], steps) : null;
      if (spread) {
        const off = (sign) =>
          values.map((value, k) =>
            value === null || spread[k] === null ? null : value + sign * spread[k],
          );
        band(off(1), off(-1), faded(stroke, 0.08));
      }
      if (sheet.isBanded(name))
        band(
          sheet.column(name, steps, "high"),
          sheet.column(name, steps, "low"),
          faded(stroke, 0.16),
        );
      const look = { stroke, width: isLarge ? (n ? 1.5 : 2) : 1.3, dash: dashOf(name, n, isOwn) };
      const alone = {
        points: { show: values.filter((value) => value !== null).length === 1, size: 4 },
      }; // no line yet
      if (smooth) add(name, values, { ...look, stroke: faded(stroke, 0.25), width: 1 });
      add(name, smooth ? smoothed(values, smooth) : values, { ...look, ...alone });
    });
  return { steps, data: [steps.map((step) => sheet.places.get(step)), ...columns], series, bands };
}

// Places on the clock: the time of day, or the day where they are days apart.
function clock(_, places, __, ___, apart) {
  const look =
    apart >= 86_400
      ? { day: "numeric", month: "short" }
      : {
          hour: "2-digit",
          minute: "2-digit",
          hourCycle: "h23",
          ...(apart < 60 && { second: "2-digit" }),
        };
  return places.map((place) => new Intl.DateTimeFormat([], look).format(place * 1000));
}

function axes(isLarge, isTime) {
  if (!isLarge) return [{ show: false }, { show: false }];
  const line = resolved("line"),
    stroke = resolved("faint"),
    font = "11px ui-monospace, monospace";
  return [
    {
      stroke,
      font,
      grid: { show: false },
      ticks: { show: false },
      size: 26,
      space: 80,
      ...(isTime ? { values: clock } : { incrs: WHOLE }),
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

// A dotted line where the configuration was changed; in the large chart with what changed.
function drawMarks(plot, marks, isLarge) {
  const { ctx, bbox } = plot,
    dot = devicePixelRatio;
  ctx.save();
  const ink = resolved("quiet"),
    paper = faded(resolved("sheet"), 0.8);
  ctx.strokeStyle = ink;
  ctx.setLineDash([2 * dot, 3 * dot]);
  ctx.font = `${11 * dot}px ui-monospace, monospace`;
  marks.forEach((mark, row) => {
    const x = plot.valToPos(mark.x, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) return;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (!isLarge) return;
    const wide = ctx.measureText(mark.words).width,
      y = bbox.top + bbox.height - (8 + 16 * (row % 4)) * dot;
    const left = x > bbox.left + bbox.width / 2 ? x - wide - 8 * dot : x + 8 * dot;
    ctx.fillStyle = paper;
    ctx.fillRect(left - 3 * dot, y - 11 * dot, wide + 6 * dot, 15 * dot);
    ctx.fillStyle = ink;
    ctx.fillText(mark.words, left, y);
  });
  ctx.restore();
}

export class Chart {
  // `page`: {sheet, marks(), smooth(), axis(), pointed(step, words), picked(fromStep, toStep),
  // isZoomed(), whole(), opened(step), isLog(), isOwn}
  constructor(element, page) {
    this.element = element;
    this.page = page;
    this.key = element.dataset.curve;
    this.names = element.dataset.names.split(" ");
    this.isLarge = element.classList.contains("large");
    this.figure = element.querySelector("figure");
    this.isSeen = false;
    const words = (element.dataset.words ?? "").split("|");
    this.words = new Map(this.names.map((name, n) => [name, words[n] || ""]));
    this.#keys();
  }

  // What each line of the legend looks like.
  #keys() {
    const lines = this.names.filter((name) => !Object.values(SPREADS).includes(name));
    for (const key of this.element.querySelectorAll("[data-key]")) {
      const name = key.dataset.key,
        n = lines.indexOf(name),
        dash = dashOf(name, n, this.page.isOwn);
      key.style.borderTopColor = `var(--${inkOf(name, n, this.isLarge, this.page.isOwn)})`;
      key.style.borderTopStyle = dash ? (dash[0] > 1 ? "dashed" : "dotted") : "solid";
    }
  }

  get title() {
    return this.element.dataset.title;
  }

  // Show other metrics: name → label. Their legend stands in the element already.
  show(title, words) {
    this.element.dataset.title = title;
    this.figure.setAttribute("aria-label", title);
    this.names = [...words.keys()];
    this.words = words;
    this.key = "own";
    this.#keys();
    this.paint();
  }

  drawn() {
    const { sheet, isOwn } = this.page;
    return layout(this.names, sheet, {
      smooth: this.page.smooth(),
      isLarge: this.isLarge,
      isLog: this.page.isLog(),
      isOwn,
    });
  }

  paint() {
    if (!this.isSeen || this.isHeld) return;
    const { steps, data, series, bands } = this.drawn();
    this.steps = steps;
    const hasValues = data.slice(1).some((column) => column.some((value) => value !== null));
    this.figure.querySelector(".none").hidden = hasValues;
    if (!hasValues) {
      this.figure.querySelector(".sketch")?.remove();
      return this.destroy();
    }
    this.figure.querySelector(".sketch")?.remove();
    const shape = `${this.page.axis()} ${this.page.isLog()} ${bands.length} ${series.map((one) => `${one.label}${one.points.show}`)}`;
    if (this.plot && this.shape === shape) return this.plot.setData(data);
    this.destroy();
    this.shape = shape;
    this.plot = new uPlot(this.options(series, bands, this.figure), data, this.figure);
    this.plot.over.addEventListener("mousedown", (event) => {
      this.isHeld = true;
      this.pressedAt = event.clientX;
    });
    this.plot.over.addEventListener("click", (event) => this.#click(event));
    this.plot.over.addEventListener("dblclick", () => this.page.whole());
    followFinger(
      this.plot,
      (isHeld) => {
        this.isHeld = isHeld;
      },
      (left, width) => this.#pick(left, width),
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
      axes: axes(isLarge, this.page.axis() === "time"),
      legend: { show: false },
      padding: isLarge ? [8, 20, 0, 0] : [4, 2, 4, 2],
      cursor: {
        sync: { key: TIED.key },
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
      },
      scales: {
        x: { time: this.page.axis() === "time" },
        y: isLog
          ? { distr: 3 }
          : { range: isReward ? (_, low, high) => [Math.min(0, low), Math.max(1, high)] : padded },
      },
      hooks: {
        draw: [(plot) => drawMarks(plot, this.page.marks(), isLarge)],
        setCursor: [(plot) => this.#point(plot)],
        setSelect: [(plot) => this.#select(plot)],
      },
    };
  }

  #point(plot) {
    const at = plot.cursor.left < 0 ? null : plot.cursor.idx;
    if (at === null || at === undefined) return this.page.pointed(null, "");
    const near = (mark) => Math.abs(plot.valToPos(mark.x, "x") - plot.cursor.left) <= NEAR_PX;
    this.page.pointed(
      this.steps[at],
      this.page
        .marks()
        .filter(near)
        .map((mark) => mark.words)
        .join(" · "),
    );
  }

  // A click opens its step; where a double click means the whole run, the drawer waits for it.
  #click(event) {
    clearTimeout(this.opening);
    if (event.detail > 1 || Math.abs(event.clientX - this.pressedAt) >= CLICK_PX) return;
    const step = this.steps[this.plot.posToIdx(event.offsetX)];
    if (this.page.isZoomed()) this.opening = setTimeout(() => this.page.opened(step), DOUBLE_MS);
    else this.page.opened(step);
  }

  #select(plot) {
    const { left, width } = plot.select,
      isMine = this.isHeld;
    this.isHeld = false;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    // Else tied to the one in which somebody drags, or a click.
    if (isMine && width >= 4) this.#pick(left, width);
  }

  #pick(left, width) {
    const [from, to] = [left, left + width].map((x) => this.steps[this.plot.posToIdx(x)]);
    if (to > from) this.page.picked(from, to);
  }
}
