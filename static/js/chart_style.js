// Colors, number formats and scales that all charts on a canvas share.

// Return the color of a CSS custom property. The browser must resolve light-dark() before a canvas
// can use it.
export function resolveColor(name) {
  const element = document.createElement("i");
  element.style.color = `var(--${name})`;
  document.body.append(element);
  const value = getComputedStyle(element).color;
  element.remove();
  return value;
}

export function withAlpha(color, alpha) {
  return color.startsWith("oklch(") ? color.replace(/(\s*\/[^)]*)?\)$/, ` / ${alpha})`) : color;
}

// Format a number with about two significant digits.
export function formatNumber(value) {
  if (value === undefined || value === null) return "";
  const magnitude = Math.abs(value);
  if (magnitude >= 1000) return Math.round(value).toLocaleString("en");
  if (magnitude >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return magnitude >= 0.1 ? value.toFixed(2) : String(Number(value.toPrecision(2)));
}

// Return the limits of a y scale with padding above and below. A scale of values that are never
// negative doesn't start below zero.
export function padRange(_, low, high) {
  if (low === null) return [0, 1];
  const padding = (high - low || Math.abs(high) || 1) * 0.12;
  return [low >= 0 ? Math.max(0, low - padding) : low - padding, high + padding];
}
