// Charts that are refreshed every few seconds while the tab is visible.
import { drawCharts } from "./charts.js";
import { fetchPart, showConnection } from "./site.js";

const POLL_MS = 5000;
const page = document.querySelector("[data-curves]");

async function refresh() {
  if (document.visibilityState !== "visible") return;
  const response = await fetchPart(page.dataset.curves);
  const curves = await response?.json().catch(() => null);
  if (!curves) return showConnection("late", "not refreshed");
  drawCharts(curves.series);
  showConnection("live", "live");
}

refresh();
setInterval(refresh, POLL_MS);
