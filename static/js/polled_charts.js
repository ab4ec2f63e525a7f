// Charts that are refreshed every few seconds while the tab is visible.
import { drawCharts } from "./charts.js";

const POLL_MS = 5000;
const page = document.querySelector("[data-curves]");

async function refresh() {
  if (document.visibilityState !== "visible") return;
  const response = await fetch(page.dataset.curves);
  if (response.ok) drawCharts((await response.json()).series);
}

refresh();
setInterval(refresh, POLL_MS);
