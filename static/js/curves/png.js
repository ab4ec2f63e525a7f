// A chart as a picture: drawn again at a size of its own, with axes, its title and what its lines
// are.
import { resolved } from "../canvas.js";

const WIDTH = 960,
  HEIGHT = 400,
  HEAD = 44,
  ROW = 18,
  EDGE = 16;

export async function download(chart, words, name) {
  const box = document.createElement("div");
  box.className = "offstage";
  document.body.append(box);
  const { series, bands, data } = chart.drawn();
  const plot = await new Promise((ready) => {
    const options = chart.options(
      series,
      bands,
      { clientWidth: WIDTH, clientHeight: HEIGHT },
      true,
    );
    new uPlot(
      { ...options, cursor: { show: false }, hooks: { draw: options.hooks.draw } },
      data,
      (made, init) => {
        box.append(made.root);
        init();
        requestAnimationFrame(() => ready(made));
      },
    );
  });
  // The smoothed over the raw; a line alone is what the title says.
  const lines = new Map(
    series
      .filter((one) => chart.words.get(one.label))
      .map((one) => [chart.words.get(one.label), one.stroke]),
  );
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
  const scale = devicePixelRatio,
    picture = document.createElement("canvas"),
    ctx = picture.getContext("2d");
  const pieces = [
    { words: title, font: `600 ${15 * scale}px system-ui, sans-serif`, ink: resolved("ink") },
  ];
  for (const [line, ink] of lines)
    pieces.push({ words: line, font: `${12 * scale}px system-ui, sans-serif`, ink });
  for (const word of words.split(" "))
    pieces.push({
      words: word,
      font: `${12 * scale}px system-ui, sans-serif`,
      ink: resolved("quiet"),
      isWord: true,
    });
  const rows = placed(ctx, pieces, drawing.width, scale),
    head = (HEAD + (rows.length - 1) * ROW) * scale;
  picture.width = drawing.width + 2 * EDGE * scale;
  picture.height = drawing.height + head + EDGE * scale;
  ctx.fillStyle = resolved("sheet");
  ctx.fillRect(0, 0, picture.width, picture.height);
  ctx.textBaseline = "middle";
  rows.forEach((row, n) =>
    row.forEach(({ words: piece, font, ink, x }) => {
      Object.assign(ctx, { font, fillStyle: ink });
      ctx.fillText(piece, EDGE * scale + x, (HEAD / 2 + n * ROW) * scale);
    }),
  );
  ctx.drawImage(drawing, EDGE * scale, head);
  return picture;
}

// Returns the pieces of text in rows no wider than the drawing, each piece with its place in its
// row.
function placed(ctx, pieces, wide, scale) {
  const rows = [[]];
  let x = 0,
    last;
  for (const piece of pieces) {
    ctx.font = piece.font;
    const width = ctx.measureText(piece.words).width;
    let at = x ? x + (piece.isWord && last.isWord ? 4 : 12) * scale : 0;
    if (at && at + width > wide) {
      rows.push([]);
      at = 0;
    }
    rows.at(-1).push({ ...piece, x: at });
    x = at + width;
    last = piece;
  }
  return rows;
}
