// A run's page: curves from a step cursor, fragments fetched again when an event says that something moved.
import { drawCharts } from "./charts.js";
import { follow, throttled } from "./stream.js";

const page = document.querySelector("[data-run]");
let lastStep = 0;
let sequence = Number(page.dataset.sequence);

const moreCurves = throttled(async () => {
  const answer = await fetch(`${page.dataset.curves}?after=${lastStep}`);
  if (!answer.ok) return;
  const { step, series, changes } = await answer.json();
  drawCharts(series, changes);
  lastStep = Math.max(lastStep, step);
}, 1000);

const refreshParts = throttled(() => {
  for (const id of ["now", "newest", "beside"]) {
    const part = document.getElementById(id);
    if (!part) continue; // a run that samples nothing has no newest replies
    // A part in which somebody has a menu open or a control in focus waits for its next turn.
    if (!part.querySelector("details[open]") && !part.contains(document.activeElement)) htmx.trigger(part, "changed");
  }
}, 2000);

function take(frame) {
  for (const event of frame.events ?? []) {
    sequence = event.sequence;
    refreshParts();
    if (event.kind === "step_committed" || event.kind === "config_changed") moreCurves();
  }
  if (frame.at) sequence = Math.max(sequence, frame.at[page.dataset.topic] ?? 0);
}

moreCurves();
follow(() => `/ws/events/?topic=${page.dataset.topic}&since=${sequence}`, take);
setInterval(() => document.visibilityState === "visible" && refreshParts(), 5000); // sampling and waiting move without events
