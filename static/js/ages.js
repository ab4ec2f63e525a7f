// "12 s" grows without asking the server: every <time data-age> counts from its datetime.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

export function age(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [size, word] of UNITS) if (whole >= size) return `${Math.floor(whole / size)} ${word}`;
  return `${whole} s`;
}

function refresh() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-age]")) {
    const words = age((now - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== words) time.textContent = words;
  }
}

export function refreshAges() {
  refresh();
  setInterval(refresh, 1000);
}
