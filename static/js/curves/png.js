// A chart as a picture: drawn again at a size of its own, with axes, its title and what its lines are.
import { resolved } from "../canvas.js";

const WIDTH = 960, HEIGHT = 400, HEAD = 44, EDGE = 16;

export async function download(chart, words, name) {
  const box = document.createElement("div");
  box.className = "offstage";
  document.body.append(box);
  const { series, bands, data } = chart.drawn();
  const plot = await new Promise((ready) => {
    const options = chart.options(series, bands, { clientWidth: WIDTH, clientHeight: HEIGHT }, true);
    new uPlot({ ...options, cursor: { show: false }, hooks: { draw: options.hooks.draw } }, data, (made, init) => {
      box.append(made.root);
      init();
      requestAnimationFrame(() => ready(made));
    });
  });
  const lines = new Map(series.filter((one) => one.label).map((one) => [one.label, one.stroke])); // the smoothed over the raw
  const picture = compose(plot.ctx.canvas, chart.title, words, lines);
  plot.destroy();
  box.remove();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await new Promise((done) => picture.toBlob(done)));
  link.download = `${name}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function compose(drawing, title, words, lines) {
  const scale = devicePixelRatio, picture = document.createElement("canvas");
  picture.width = drawing.width + 2 * EDGE * scale;
  picture.height = drawing.height + (HEAD + EDGE) * scale;
  const ctx = picture.getContext("2d");
  ctx.fillStyle = resolved("sheet");
  ctx.fillRect(0, 0, picture.width, picture.height);
  ctx.textBaseline = "middle";
  ctx.fillStyle = resolved("ink");
  ctx.font = `600 ${15 * scale}px system-ui, sans-serif`;
  ctx.fillText(title, EDGE * scale, (HEAD / 2) * scale);
  let x = EDGE * scale + ctx.measureText(title).width;
  ctx.font = `${12 * scale}px system-ui, sans-serif`;
  for (const [said, ink] of [...lines, [words, resolved("quiet")]]) {
    ctx.fillStyle = ink;
    ctx.fillText(said, x + 12 * scale, (HEAD / 2) * scale);
    x += ctx.measureText(said).width + 12 * scale;
  }
  ctx.drawImage(drawing, EDGE * scale, HEAD * scale);
  return picture;
}
