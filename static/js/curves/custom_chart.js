// The controls of the charts page: selected metrics, log scale, full screen, and saved views.

// `page` provides {chart(), params(), updateUrl(change), onMetricsChange(), redraw()}.
export function initCustomChart(root, page) {
  const logBox = root.querySelector("[data-log]");
  logBox.disabled = false;
  logBox.addEventListener("change", () => {
    page.updateUrl(() =>
      logBox.checked ? page.params().set("log", "1") : page.params().delete("log"),
    );
    page.redraw();
  });
  root
    .querySelector(".names")
    .addEventListener("change", (event) => toggleMetric(root, page, event.target));
  initFullScreen(root);
  const saveForm = document.querySelector("[data-save-view]");
  saveForm.addEventListener("submit", () => (saveForm.elements.query.value = buildQuery(page)));
}

// Return the query of the current view, with the metrics even if the URL leaves them out.
function buildQuery(page) {
  const query = new URLSearchParams(page.params());
  if (!query.has("names") && !query.has("chart"))
    for (const name of page.chart().names) query.append("names", name);
  return query.toString();
}

function toggleMetric(root, page, checkbox) {
  const chart = page.chart();
  const names = checkbox.checked
    ? [...chart.names, checkbox.value]
    : chart.names.filter((name) => name !== checkbox.value);
  const titles = new Map(
    [...root.querySelectorAll(".names input")].map((input) => [input.value, input.dataset.title]),
  );
  page.updateUrl(() => {
    page.params().delete("chart");
    page.params().delete("names");
    for (const name of names) page.params().append("names", name);
  });
  // The other metrics are drawn as bands.
  const lineNames = names.filter((name) => titles.has(name));
  const title = lineNames.length === 1 ? titles.get(lineNames[0]) : `${lineNames.length} metrics`;
  root.querySelector("[data-chart-title]").textContent = title;
  root
    .querySelector("[data-legend-box]")
    .replaceChildren(...lineNames.map((name) => createLegendEntry(name, titles.get(name))));
  chart.show(title, new Map(names.map((name) => [name, titles.get(name) ?? ""])));
  page.onMetricsChange();
}

function createLegendEntry(name, title) {
  const entry = document.createElement("span");
  const key = document.createElement("i");
  const value = document.createElement("b");
  entry.dataset.legend = key.dataset.key = value.dataset.value = name;
  key.className = "key";
  value.className = "num";
  entry.append(key, `${title} `, value);
  return entry;
}

function initFullScreen(root) {
  const button = root.querySelector("[data-fullscreen]");
  button.hidden = !document.fullscreenEnabled;
  button.addEventListener("click", () =>
    document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
  );
  document.addEventListener(
    "fullscreenchange",
    () => (button.textContent = document.fullscreenElement ? "Leave full screen" : "Full screen"),
  );
}
