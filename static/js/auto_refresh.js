// Refreshes parts of a page while the tab is visible: <div data-refresh-ms="2000" hx-get=…
// hx-trigger="changed">. Opened <details> stay open. A part that contains data-ended is refreshed
// no more.
const LABELS = { late: "not refreshed", live: "live" };

function showConnection(state) {
  const dot = document.querySelector("[data-connection]");
  dot.dataset.socket = "yes"; // this script sets the connection state, not site.js
  dot.hidden = false;
  dot.dataset.state = state;
  dot.textContent = LABELS[state];
}

// Whether a person has changed the field. A refresh must not discard input.
const isChanged = (field) =>
  /^(checkbox|radio)$/.test(field.type)
    ? field.checked !== field.defaultChecked
    : field.value !== field.defaultValue;
const isBeingUsed = (region) =>
  region.contains(document.activeElement) ||
  String(getSelection()) !== "" ||
  region.querySelector("dialog[open]") ||
  [...region.querySelectorAll("textarea, input")].some(isChanged);

htmx.registerExtension("keep-open", {
  htmx_before_morph_node(element, { newNode }) {
    if (element.matches("details[open]")) newNode.setAttribute("open", "");
    if (element.matches("[data-send-status]"))
      // Its content was fetched when a person opened it, and is not part of the refreshed page.
      newNode.replaceChildren(...element.cloneNode(true).childNodes);
  },
});

for (const region of document.querySelectorAll("[data-refresh-ms]")) {
  showConnection("live");
  region.addEventListener("htmx:error", () => showConnection("late"));
  region.addEventListener("htmx:response:error", () => showConnection("late"));
  region.addEventListener("htmx:after:swap", () => showConnection("live"));
  const timer = setInterval(() => {
    if (region.querySelector("[data-ended]")) {
      clearInterval(timer);
      document.querySelector("[data-connection]").hidden = true;
    } else if (document.visibilityState === "visible" && !isBeingUsed(region))
      htmx.trigger(region, "changed");
  }, Number(region.dataset.refreshMs));
}
