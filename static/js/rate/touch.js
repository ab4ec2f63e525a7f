// A swipe over the reply: right is good or "take it and go on", left is bad or "skip". Fetched
// where there is something to touch.
const SWIPE_PX = 80;
const NOT_HERE = "button, input, textarea, label, [data-spantext], pre, table";

// `swiped("right" | "left")`
export function listen(stage, hint, swiped) {
  let from = null;
  hint.hidden = false;
  hint.textContent =
    "Swipe right to submit, left to skip. With thumbs, right is good and left is bad.";
  stage.addEventListener("pointerdown", (event) => {
    from =
      event.pointerType === "touch" && event.isPrimary && !event.target.closest(NOT_HERE)
        ? { x: event.clientX, y: event.clientY }
        : null;
  });
  stage.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    from = null;
    if (Math.abs(dx) >= SWIPE_PX && Math.abs(dx) >= 2 * Math.abs(dy))
      swiped(dx > 0 ? "right" : "left");
  });
  stage.addEventListener("pointercancel", () => (from = null));
}
