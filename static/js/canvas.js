// What every drawing on a canvas needs: colours of the page's tokens, and numbers as people read
// them.

// light-dark() must be resolved by the browser before a canvas can use it.
export function resolved(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export function faded(css, alpha) {
  return css.startsWith("oklch(") ? css.replace(/(\s*\/[^)]*)?\)$/, ` / ${alpha})`) : css;
}

export function formatNumber(value) {
  if (value === undefined || value === null) return "";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 0.1 ? value.toFixed(2) : String(Number(value.toPrecision(2)));
}

// Of a y scale: some room above and below, and never below zero for what is not.
export function padded(_, low, high) {
  if (low === null) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}
