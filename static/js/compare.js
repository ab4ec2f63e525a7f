// Curves of several runs on one pair of axes for each metric; the hover is tied.
import { formatNumber as told, padded, resolved } from "./canvas.js";
import { followFinger } from "./curves/touch.js";

const TIED = uPlot.sync("compare");
const DASHES = [undefined, [6, 3], [2, 3], [8, 3, 2, 3]]; // told apart without colour, too
const LEGEND_PX = 32;
const section = document.querySelector("[data-compare]");
let answer;
let plots = [];

function table(points) {
  const places = [...new Set(Object.values(points).flatMap((one) => one.x))].sort((a, b) => a - b);
  const columns = answer.runs.map((run) => {
    const byPlace = new Map(points[run]?.x.map((x, n) => [x, points[run].y[n]]) ?? []);
    return places.map((x) => byPlace.get(x) ?? null);
  });
  return [places, ...columns];
}

function options(figure) {
  const isLarge = !figure.classList.contains("small");
  const line = resolved("line"),
    faint = resolved("faint"),
    font = "11px ui-monospace, monospace";
  const axis = { stroke: faint, font, ticks: { show: false } };
  const series = answer.runs.map((run, n) => ({
    label: run,
    stroke: resolved(`run-${n}`),
    width: isLarge ? 1.8 : 1.3,
    dash: DASHES[n % DASHES.length],
    spanGaps: true,
    points: { show: false },
  }));
  return {
    width: figure.clientWidth,
    height: figure.clientHeight - (isLarge ? LEGEND_PX : 0),
    legend: { show: isLarge, live: true },
    cursor: { sync: { key: TIED.key }, y: false, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: padded } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        label: isLarge ? answer.axis : undefined,
        labelSize: 18,
        labelFont: font,
      },
      { ...axis, grid: { stroke: line, width: 1 }, size: 48, values: (_, all) => all.map(told) },
    ],
    series: [{ label: answer.axis }, ...series],
  };
}

function draw() {
  for (const plot of plots) plot.destroy();
  plots = [];
  for (const figure of document.querySelectorAll("[data-overlay]")) {
    const points = answer.series[figure.dataset.overlay] ?? {};
    const data = table(points);
    figure.querySelector(".none").hidden = data[0].length > 0;
    if (!data[0].length) {
      figure.parentElement.hidden = true; // none of the runs has measured it
      continue;
    }
    const plot = new uPlot(options(figure), data, figure);
    followFinger(
      plot,
      () => {},
      (left, width) => zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x")),
    );
    plots.push(plot);
  }
}

// All of them, as where a mouse drags; a double tap leads back.
function zoom(min, max) {
  for (const plot of plots) plot.setScale("x", { min, max });
}

if (section) {
  const response = await fetch(section.dataset.compare);
  if (response.ok) {
    answer = await response.json();
    draw();
    let pending;
    new ResizeObserver(() => {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(() =>
        plots.forEach((plot) =>
          plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height }),
        ),
      );
    }).observe(section);
    document.addEventListener("theme", draw);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  } else {
    for (const words of section.querySelectorAll(".none"))
      words.textContent = "Couldn’t load the curves. Reload the page.";
  }
}
