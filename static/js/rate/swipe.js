// Swipes on touch screens: to the right submits (or rates as good), to the left skips (or rates as
// bad). Loaded only on devices with touch.
const SWIPE_PX = 80;
const IGNORED = "button, input, textarea, label, [data-spantext], pre, table";

// `onSwipe` receives "right" or "left".
export function listenForSwipes(stage, hint, onSwipe) {
  let from = null;
  hint.hidden = false;
  hint.textContent =
    "Swipe right to submit, left to skip. With thumbs, right is good and left is bad.";
  stage.addEventListener("pointerdown", (event) => {
    from =
      event.pointerType === "touch" && event.isPrimary && !event.target.closest(IGNORED)
        ? { x: event.clientX, y: event.clientY }
        : null;
  });
  stage.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    from = null;
    if (Math.abs(dx) >= SWIPE_PX && Math.abs(dx) >= 2 * Math.abs(dy))
      onSwipe(dx > 0 ? "right" : "left");
  });
  stage.addEventListener("pointercancel", () => (from = null));
}
