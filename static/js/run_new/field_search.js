// Search fields on the page of a new run, for settings and for algorithms. They hide what doesn't
// match.
const form = document.getElementById("new-run");
const openedGroups = new Set(); // ids of the groups that a search opened

form.addEventListener("input", (event) => event.target.dataset.searchTarget && filterFields());
form.addEventListener("keydown", (event) => {
  const input = event.target;
  if (!input.dataset.searchTarget || event.isComposing) return;
  if (event.key === "Enter") event.preventDefault(); // Enter would submit the form
  if (event.key === "Escape" && input.value) {
    event.preventDefault();
    input.value = "";
    filterFields();
  }
});

// Apply the searches; also after each render, because the server doesn't know them.
export function filterFields() {
  for (const element of form.querySelectorAll("[data-scripted]")) element.hidden = false;
  for (const input of form.querySelectorAll("[data-search-target]")) {
    const container = document.getElementById(input.dataset.searchTarget);
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = [...container.querySelectorAll(".knob[data-knob], [data-searchable]")];
    const matching = new Set(items.filter((item) => matches(item, words)).map(visibleItem));
    for (const item of items) item.hidden = !matching.has(item);
    for (const group of container.querySelectorAll("[data-searchable-group]"))
      showGroup(group, items, words);
    showCount(container, words, matching);
  }
}

function matches(item, words) {
  const text = `${item.textContent} ${item.dataset.knob ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

// Return the item that represents this one: fields of a disabled section are hidden, so the switch
// of the section represents them.
function visibleItem(item) {
  if (!("inactive" in item.dataset)) return item;
  return (
    [...form.querySelectorAll(".knob[data-knob]:not([data-inactive])")].find((field) =>
      item.dataset.knob.startsWith(`${field.dataset.knob}.`),
    ) ?? item
  );
}

function showGroup(group, items, words) {
  const hasMatches = items.some((item) => !item.hidden && group.contains(item));
  group.hidden = !hasMatches;
  if (group.localName !== "details") return;
  if (words.length && hasMatches && !group.open) {
    group.open = true;
    openedGroups.add(group.id);
  } else if (!words.length && openedGroups.delete(group.id)) group.open = false;
}

// Show how many settings match, with links to matching fields in the steps above.
function showCount(container, words, matching) {
  const status = container.querySelector("[data-search-results]");
  if (!status) return;
  status.replaceChildren();
  if (!words.length) return;
  const inSteps = [...form.querySelectorAll(".step .knob[data-knob]:not([data-inactive])")].filter(
    (field) => matching.has(field) || matches(field, words),
  );
  const count = [...matching].filter((field) => container.contains(field)).length;
  status.append(count === 1 ? "1 setting." : `${count} settings.`);
  for (const [number, field] of inSteps.entries()) {
    const link = document.createElement("a");
    link.className = "link";
    link.href = `#${field.id}`;
    link.textContent = field.querySelector("label, legend").textContent;
    status.append(number ? ", " : " In the steps above: ", link);
  }
}
