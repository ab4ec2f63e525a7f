// Saves a chart as a PNG image, rendered at a fixed size with axes, title and legend.
import { resolveColor } from "../chart_style.js";

const WIDTH = 960,
  HEIGHT = 400,
  HEADER = 44,
  ROW_HEIGHT = 18,
  MARGIN = 16;

export async function downloadPng(chart, description, name) {
  const container = document.createElement("div");
  container.className = "off-screen";
  document.body.append(container);
  const { series, bands, data } = chart.layout();
  const plot = await new Promise((resolve) => {
    const options = chart.options(
      series,
      bands,
      { clientWidth: WIDTH, clientHeight: HEIGHT },
      true,
    );
    new uPlot(
      { ...options, cursor: { show: false }, hooks: { draw: options.hooks.draw } },
      data,
      (chartPlot, init) => {
        container.append(chartPlot.root);
        init();
        requestAnimationFrame(() => resolve(chartPlot));
      },
    );
  });
  // Smoothed lines have the same label as raw ones, which they replace. A chart with a single line
  // needs no legend, so its label is empty.
  const legend = new Map(
    series
      .filter((line) => chart.labels.get(line.label))
      .map((line) => [chart.labels.get(line.label), line.stroke]),
  );
  const image = renderImage(plot.ctx.canvas, chart.title, description, legend);
  plot.destroy();
  container.remove();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await new Promise((resolve) => image.toBlob(resolve)));
  link.download = `${name}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function renderImage(chartCanvas, title, description, legend) {
  const scale = devicePixelRatio,
    image = document.createElement("canvas"),
    ctx = image.getContext("2d");
  const labels = [
    { text: title, font: `600 ${15 * scale}px system-ui, sans-serif`, color: resolveColor("ink") },
  ];
  for (const [line, color] of legend)
    labels.push({ text: line, font: `${12 * scale}px system-ui, sans-serif`, color });
  for (const part of description.split(" "))
    labels.push({
      text: part,
      font: `${12 * scale}px system-ui, sans-serif`,
      color: resolveColor("quiet"),
      isWord: true,
    });
  const rows = layOutRows(ctx, labels, chartCanvas.width, scale),
    headerHeight = (HEADER + (rows.length - 1) * ROW_HEIGHT) * scale;
  image.width = chartCanvas.width + 2 * MARGIN * scale;
  image.height = chartCanvas.height + headerHeight + MARGIN * scale;
  ctx.fillStyle = resolveColor("sheet");
  ctx.fillRect(0, 0, image.width, image.height);
  ctx.textBaseline = "middle";
  rows.forEach((row, n) =>
    row.forEach(({ text: label, font, color, x }) => {
      Object.assign(ctx, { font, fillStyle: color });
      ctx.fillText(label, MARGIN * scale + x, (HEADER / 2 + n * ROW_HEIGHT) * scale);
    }),
  );
  ctx.drawImage(chartCanvas, MARGIN * scale, headerHeight);
  return image;
}

// Arrange the labels in rows no wider than the chart, and give each its x position.
function layOutRows(ctx, labels, maxWidth, scale) {
  const rows = [[]];
  let x = 0,
    previous;
  for (const label of labels) {
    ctx.font = label.font;
    const width = ctx.measureText(label.text).width;
    let at = x ? x + (label.isWord && previous.isWord ? 4 : 12) * scale : 0;
    if (at && at + width > maxWidth) {
      rows.push([]);
      at = 0;
    }
    rows.at(-1).push({ ...label, x: at });
    x = at + width;
    previous = label;
  }
  return rows;
}
