// Searches on the page of a new run: over the settings under Advanced, and over the algorithms.
// They hide what does not match.
const form = document.getElementById("new-run");
const opened = new Set(); // ids of the groups that a search has opened

form.addEventListener("input", (event) => event.target.dataset.finds && filterFields());
form.addEventListener("keydown", (event) => {
  const box = event.target;
  if (!box.dataset.finds) return;
  if (event.key === "Enter") event.preventDefault(); // it would check the form
  if (event.key === "Escape" && box.value) {
    event.preventDefault();
    box.value = "";
    filterFields();
  }
});

// Again after each redraw: the server knows nothing of the searches.
export function filterFields() {
  for (const part of form.querySelectorAll("[data-scripted]")) part.hidden = false;
  for (const box of form.querySelectorAll("[data-finds]")) {
    const place = document.getElementById(box.dataset.finds);
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = [...place.querySelectorAll(".knob[data-knob], [data-findable]")];
    const shown = new Set(items.filter((item) => matches(item, words)).map(standIn));
    for (const item of items) item.hidden = !shown.has(item);
    for (const group of place.querySelectorAll("[data-findable-group]")) show(group, items, words);
    tell(place, words, shown);
  }
}

function matches(item, words) {
  const text = `${item.textContent} ${item.dataset.knob ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

// Fields of a section that is off are not shown: the switch of the section stands for them.
function standIn(item) {
  if (!("off" in item.dataset)) return item;
  return (
    [...form.querySelectorAll(".knob[data-knob]:not([data-off])")].find((knob) =>
      item.dataset.knob.startsWith(`${knob.dataset.knob}.`),
    ) ?? item
  );
}

function show(group, items, words) {
  const any = items.some((item) => !item.hidden && group.contains(item));
  group.hidden = !any;
  if (group.localName !== "details") return;
  if (words.length && any && !group.open) {
    group.open = true;
    opened.add(group.id);
  } else if (!words.length && opened.delete(group.id)) group.open = false;
}

// How many there are, and which of the three steps have some, too.
function tell(place, words, shown) {
  const line = place.querySelector("[data-found]");
  if (!line) return;
  line.replaceChildren();
  if (!words.length) return;
  const above = [...form.querySelectorAll(".step .knob[data-knob]:not([data-off])")].filter(
    (knob) => shown.has(knob) || matches(knob, words),
  );
  const count = [...shown].filter((knob) => place.contains(knob)).length;
  line.append(count === 1 ? "1 setting." : `${count} settings.`);
  for (const [number, knob] of above.entries()) {
    const link = document.createElement("a");
    link.className = "link";
    link.href = `#${knob.id}`;
    link.textContent = knob.querySelector("label, legend").textContent;
    line.append(number ? ", " : " In the steps above: ", link);
  }
}
