// The controls of the charts page: which metrics its one chart shows, log scale, full screen, and
// saving a view.

// `page`: {chart(), params(), go(change), shown(), repaint()}
export function ownControls(place, page) {
  const log = place.querySelector("[data-log]");
  log.disabled = false;
  log.addEventListener("change", () => {
    page.go(() => (log.checked ? page.params().set("log", "1") : page.params().delete("log")));
    page.repaint();
  });
  place
    .querySelector(".names")
    .addEventListener("change", (event) => pick(place, page, event.target));
  fullScreen(place);
  const save = document.querySelector("[data-save-view]");
  save.addEventListener("submit", () => (save.elements.query.value = addressOf(page)));
}

// What is shown, also where the address leaves the metrics to the page.
function addressOf(page) {
  const words = new URLSearchParams(page.params());
  if (!words.has("names") && !words.has("chart"))
    for (const name of page.chart().names) words.append("names", name);
  return words.toString();
}

function pick(place, page, box) {
  const chart = page.chart();
  const names = box.checked
    ? [...chart.names, box.value]
    : chart.names.filter((name) => name !== box.value);
  const titles = new Map(
    [...place.querySelectorAll(".names input")].map((input) => [input.value, input.dataset.title]),
  );
  page.go(() => {
    page.params().delete("chart");
    page.params().delete("names");
    for (const name of names) page.params().append("names", name);
  });
  const lines = names.filter((name) => titles.has(name)); // others are bands around a line
  const title = lines.length === 1 ? titles.get(lines[0]) : `${lines.length} metrics`;
  place.querySelector("[data-chart-title]").textContent = title;
  place
    .querySelector("[data-legend-box]")
    .replaceChildren(...lines.map((name) => lineOf(name, titles.get(name))));
  chart.show(title, new Map(names.map((name) => [name, titles.get(name) ?? ""])));
  page.shown();
}

function lineOf(name, title) {
  const line = document.createElement("span");
  const key = document.createElement("i");
  const value = document.createElement("b");
  line.dataset.legend = key.dataset.key = value.dataset.value = name;
  key.className = "key";
  value.className = "num";
  line.append(key, `${title} `, value);
  return line;
}

function fullScreen(place) {
  const button = place.querySelector("[data-fullscreen]");
  button.hidden = !document.fullscreenEnabled;
  button.addEventListener("click", () =>
    document.fullscreenElement ? document.exitFullscreen() : place.requestFullscreen(),
  );
  document.addEventListener(
    "fullscreenchange",
    () => (button.textContent = document.fullscreenElement ? "Leave full screen" : "Full screen"),
  );
}
