// Touch on a chart: shows the values under the finger; a horizontal drag selects a range of x, a
// vertical drag scrolls the page.
const MIN_SELECTION_PX = 12;

// `onHold(isHeld)` is called when a finger touches the chart or leaves it. `onSelect(left, width)`
// receives the selected range in pixels of the chart.
export function handleTouch(plot, onHold, onSelect) {
  const { over } = plot;
  let from = null;
  const offsetOf = (event) =>
    Math.min(Math.max(event.clientX - over.getBoundingClientRect().left, 0), over.clientWidth);
  const select = (left, width) =>
    plot.setSelect({ left, top: 0, width, height: width && over.clientHeight }, false);
  const end = () => {
    from = null;
    select(0, 0);
    onHold(false);
  };
  over.style.touchAction = "pan-y";
  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" || !event.isPrimary) return;
    from = offsetOf(event);
    onHold(true);
    plot.setCursor({ left: from, top: over.clientHeight / 2 });
  });
  over.addEventListener("pointermove", (event) => {
    if (from === null || !event.isPrimary) return;
    const to = offsetOf(event);
    plot.setCursor({ left: to, top: over.clientHeight / 2 });
    if (Math.abs(to - from) >= MIN_SELECTION_PX) select(Math.min(from, to), Math.abs(to - from));
  });
  over.addEventListener("pointerup", (event) => {
    if (from === null || !event.isPrimary) return;
    const [left, right] = [from, offsetOf(event)].sort((a, b) => a - b);
    end();
    if (right - left >= MIN_SELECTION_PX) onSelect(left, right - left);
  });
  over.addEventListener("pointercancel", (event) => event.isPrimary && from !== null && end());
}
