// A part that is fetched again every so often while it is looked at: <div data-again="milliseconds"
// hx-get=… hx-trigger="changed">. What a person opened stays open, and with data-ended in what came
// last, it has come to its end.
const WORDS = { late: "not refreshed", live: "live" };

function show(state) {
  const dot = document.querySelector("[data-connection]");
  dot.dataset.socket = "yes"; // it speaks for this page
  dot.hidden = false;
  dot.dataset.state = state;
  dot.textContent = WORDS[state];
}

// What is typed or ticked is never morphed away. A box that says nothing of its own has another
// value than its default.
const isWritten = (field) =>
  /^(checkbox|radio)$/.test(field.type)
    ? field.checked !== field.defaultChecked
    : field.value !== field.defaultValue;
const isInUse = (part) =>
  part.contains(document.activeElement) ||
  String(getSelection()) !== "" ||
  part.querySelector("dialog[open]") ||
  [...part.querySelectorAll("textarea, input")].some(isWritten);

htmx.registerExtension("keep-open", {
  htmx_before_morph_node(element, { newNode }) {
    if (element.matches("details[open]")) newNode.setAttribute("open", "");
    if (element.matches("[data-kept]"))
      // Was fetched when it was opened.
      newNode.replaceChildren(...element.cloneNode(true).childNodes);
  },
});

for (const part of document.querySelectorAll("[data-again]")) {
  show("live");
  part.addEventListener("htmx:error", () => show("late"));
  part.addEventListener("htmx:response:error", () => show("late"));
  part.addEventListener("htmx:after:swap", () => show("live"));
  const timer = setInterval(() => {
    if (part.querySelector("[data-ended]")) {
      clearInterval(timer);
      document.querySelector("[data-connection]").hidden = true;
    } else if (document.visibilityState === "visible" && !isInUse(part))
      htmx.trigger(part, "changed");
  }, Number(part.dataset.again));
}
