// Tables whose rows are selected: Shift with a click selects all rows between, and the box in the
// head selects the page.
const ROW = 'td.tick input[type="checkbox"]';
let last = null;

function set(box, checked) {
  if (box.checked === checked) return;
  box.checked = checked;
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

const boxesOf = (table) => [...table.querySelectorAll(ROW)];

function showHead(table) {
  const head = table.querySelector("[data-tick-page] input");
  if (!head) return;
  const boxes = boxesOf(table);
  const ticked = boxes.filter((box) => box.checked).length;
  head.checked = ticked > 0 && ticked === boxes.length;
  head.indeterminate = ticked > 0 && ticked < boxes.length;
}

document.addEventListener("click", (event) => {
  const box = event.target.closest?.(ROW);
  if (!box) return;
  const from = last;
  last = box;
  // After the change event of this box, which other scripts keep a record of.
  if (event.shiftKey && from && from !== box)
    setTimeout(() => selectBetween(from, box, box.checked));
});

function selectBetween(from, to, checked) {
  const boxes = boxesOf(to.closest("table"));
  const [first, end] = [boxes.indexOf(from), boxes.indexOf(to)].sort((a, b) => a - b);
  if (first >= 0) for (const box of boxes.slice(first, end + 1)) set(box, checked);
}

// A click with Shift on the label around a box would select text between two clicks.
document.addEventListener(
  "mousedown",
  (event) => event.shiftKey && event.target.closest?.("td.tick") && event.preventDefault(),
);

document.addEventListener("change", ({ target }) => {
  const table = target.closest?.("table");
  if (!table) return;
  const { checked } = target;
  if (target.closest("[data-tick-page]")) for (const box of boxesOf(table)) set(box, checked);
  showHead(table);
});

for (const label of document.querySelectorAll("[data-tick-page]")) {
  label.hidden = false;
  showHead(label.closest("table"));
}
export { showHead };
