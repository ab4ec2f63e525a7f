// Compares runs: one chart for each metric with a line for each run, and a shared cursor.
import { formatNumber, padRange, resolveColor } from "./chart_style.js";
import { handleTouch } from "./curves/touch_selection.js";
import { fetchPart } from "./site.js";

const CURSOR_SYNC = uPlot.sync("compare");
// Dash patterns, so that lines can be distinguished without color.
const DASHES = [undefined, [6, 3], [2, 3], [8, 3, 2, 3]];
const LEGEND_PX = 32;
const section = document.querySelector("[data-compare]");
let data;
let plots = [];

function buildColumns(points) {
  const steps = [...new Set(Object.values(points).flatMap((series) => series.x))].sort(
    (a, b) => a - b,
  );
  const columns = data.runs.map((run) => {
    const values = new Map(points[run]?.x.map((x, n) => [x, points[run].y[n]]) ?? []);
    return steps.map((x) => values.get(x) ?? null);
  });
  return [steps, ...columns];
}

function buildOptions(figure) {
  const isLarge = !figure.classList.contains("small");
  const gridColor = resolveColor("line"),
    textColor = resolveColor("faint"),
    font = "11px ui-monospace, monospace";
  const axis = { stroke: textColor, font, ticks: { show: false } };
  const series = data.runs.map((run, n) => ({
    label: run,
    stroke: resolveColor(`run-${n}`),
    width: isLarge ? 1.8 : 1.3,
    dash: DASHES[n % DASHES.length],
    spanGaps: true,
    points: { show: false },
  }));
  return {
    width: figure.clientWidth,
    height: figure.clientHeight - (isLarge ? LEGEND_PX : 0),
    legend: { show: isLarge, live: true },
    cursor: { sync: { key: CURSOR_SYNC.key }, y: false, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: padRange } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        label: isLarge ? data.axis : undefined,
        labelSize: 18,
        labelFont: font,
      },
      {
        ...axis,
        grid: { stroke: gridColor, width: 1 },
        size: 48,
        values: (_, all) => all.map(formatNumber),
      },
    ],
    series: [{ label: data.axis }, ...series],
  };
}

function drawCharts() {
  for (const plot of plots) plot.destroy();
  plots = [];
  for (const figure of document.querySelectorAll("[data-overlay]")) {
    const points = data.series[figure.dataset.overlay] ?? {};
    const columns = buildColumns(points);
    figure.querySelector(".none").hidden = columns[0].length > 0;
    if (!columns[0].length) {
      figure.parentElement.hidden = true; // no run has this metric
      continue;
    }
    const plot = new uPlot(buildOptions(figure), columns, figure);
    handleTouch(
      plot,
      () => {},
      (left, width) => zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x")),
    );
    plots.push(plot);
  }
}

// Zoom all charts, as dragging with a mouse does. A double tap resets the zoom.
function zoom(min, max) {
  for (const plot of plots) plot.setScale("x", { min, max });
}

if (section) {
  const response = await fetchPart(section.dataset.compare);
  if (response) {
    data = await response.json();
    drawCharts();
    let frameRequest;
    new ResizeObserver(() => {
      cancelAnimationFrame(frameRequest);
      frameRequest = requestAnimationFrame(() =>
        plots.forEach((plot) =>
          plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height }),
        ),
      );
    }).observe(section);
    document.addEventListener("theme", drawCharts);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  } else {
    for (const note of section.querySelectorAll(".none"))
      note.textContent = "Couldn’t load the curves. Reload the page.";
  }
}
