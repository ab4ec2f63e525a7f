// The rater model's page: curves against the decisions learned, fetched again while somebody looks.
import { drawCharts } from "./charts.js";

const LOOK_EVERY_MS = 5000;
const page = document.querySelector("[data-curves]");

async function look() {
  if (document.visibilityState !== "visible") return;
  const answer = await fetch(page.dataset.curves);
  if (answer.ok) drawCharts((await answer.json()).series);
}

look();
setInterval(look, LOOK_EVERY_MS);
