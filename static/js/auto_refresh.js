// Refreshes parts of a page while the tab is visible: <div data-refresh-ms="2000" hx-get=…
// hx-trigger="changed">. Opened <details> stay open. A part that contains data-ended is refreshed
// no more. While a person uses a part, it is not refreshed.
import { hasChangedControls, showConnection } from "./site.js";

const showLive = () => showConnection("live", "live");
const showLate = () => showConnection("late", "not refreshed");
const isBeingUsed = (region) =>
  region.contains(document.activeElement) ||
  String(getSelection()) !== "" ||
  region.querySelector("dialog[open]") ||
  hasChangedControls(region);

htmx.registerExtension("keep-open", {
  htmx_before_morph_node(element, { newNode }) {
    if (element.matches("details[open]")) newNode.setAttribute("open", "");
    if (element.matches("[data-send-status]"))
      // Its content was fetched when a person opened it, and is not part of the refreshed page.
      newNode.replaceChildren(...element.cloneNode(true).childNodes);
  },
});

function refresh(region) {
  if (!isBeingUsed(region)) htmx.trigger(region, "changed");
  else if (hasChangedControls(region)) showConnection("late", "paused: unsent changes");
}

for (const region of document.querySelectorAll("[data-refresh-ms]")) {
  showLive();
  region.addEventListener("htmx:error", showLate);
  region.addEventListener("htmx:response:error", showLate);
  region.addEventListener("htmx:after:swap", showLive);
  // The person may have begun to use the part during the request.
  region.addEventListener("htmx:before:swap", (event) => {
    if (event.target === region && isBeingUsed(region)) event.preventDefault();
  });
  const timer = setInterval(() => {
    if (region.querySelector("[data-ended]")) {
      clearInterval(timer);
      document.querySelector("[data-connection]").hidden = true;
    } else if (document.visibilityState === "visible") refresh(region);
  }, Number(region.dataset.refreshMs));
}
