// Tables with a checkbox in each row: Shift-click selects the range between two rows, and the
// checkbox in the header selects all rows of the page.
const ROW_CHECKBOX = 'td.tick input[type="checkbox"]';
let lastClicked = null;

function setChecked(box, checked) {
  if (box.checked === checked) return;
  box.checked = checked;
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

const rowCheckboxes = (table) => [...table.querySelectorAll(ROW_CHECKBOX)];

// Set the header's checkbox: checked if all rows are, indeterminate if some are.
function updateHeader(table) {
  const header = table.querySelector("[data-select-page] input");
  if (!header) return;
  const boxes = rowCheckboxes(table);
  const count = boxes.filter((box) => box.checked).length;
  header.checked = count > 0 && count === boxes.length;
  header.indeterminate = count > 0 && count < boxes.length;
}

document.addEventListener("click", (event) => {
  const box = event.target.closest?.(ROW_CHECKBOX);
  if (!box) return;
  const from = lastClicked;
  lastClicked = box;
  // After this checkbox's own change event, which other scripts record.
  if (event.shiftKey && from && from !== box) setTimeout(() => selectRange(from, box, box.checked));
});

function selectRange(from, to, checked) {
  const boxes = rowCheckboxes(to.closest("table"));
  const [start, end] = [boxes.indexOf(from), boxes.indexOf(to)].sort((a, b) => a - b);
  if (start >= 0) for (const box of boxes.slice(start, end + 1)) setChecked(box, checked);
}

// Otherwise Shift-clicks on the label around a checkbox would select text.
document.addEventListener(
  "mousedown",
  (event) => event.shiftKey && event.target.closest?.("td.tick") && event.preventDefault(),
);

document.addEventListener("change", ({ target }) => {
  const table = target.closest?.("table");
  if (!table) return;
  const { checked } = target;
  if (target.closest("[data-select-page]"))
    for (const box of rowCheckboxes(table)) setChecked(box, checked);
  updateHeader(table);
});

for (const label of document.querySelectorAll("[data-select-page]")) {
  label.hidden = false;
  updateHeader(label.closest("table"));
}
export { updateHeader };
