// A finger on a chart: it points where it is, and across it takes a window; up and down it scrolls
// the page.
const SHORTEST_PX = 12;

// `held(is)`: whether a finger is on it; `picked(left, width)`: of the window, in the chart's own
// pixels.
export function followFinger(plot, held, picked) {
  const { over } = plot;
  let from = null;
  const at = (event) =>
    Math.min(Math.max(event.clientX - over.getBoundingClientRect().left, 0), over.clientWidth);
  const select = (left, width) =>
    plot.setSelect({ left, top: 0, width, height: width && over.clientHeight }, false);
  const end = () => {
    from = null;
    select(0, 0);
    held(false);
  };
  over.style.touchAction = "pan-y";
  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" || !event.isPrimary) return;
    from = at(event);
    held(true);
    plot.setCursor({ left: from, top: over.clientHeight / 2 });
  });
  over.addEventListener("pointermove", (event) => {
    if (from === null || !event.isPrimary) return;
    const to = at(event);
    plot.setCursor({ left: to, top: over.clientHeight / 2 });
    if (Math.abs(to - from) >= SHORTEST_PX) select(Math.min(from, to), Math.abs(to - from));
  });
  over.addEventListener("pointerup", (event) => {
    if (from === null || !event.isPrimary) return;
    const [left, right] = [from, at(event)].sort((a, b) => a - b);
    end();
    if (right - left >= SHORTEST_PX) picked(left, right - left);
  });
  over.addEventListener("pointercancel", (event) => event.isPrimary && from !== null && end());
}
