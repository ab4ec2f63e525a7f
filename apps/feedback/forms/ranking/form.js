// Rank all replies: by digits, by picking one up and moving it, by its arrow buttons, or by
// dragging. Tied replies share a rank.
export function createForm(article, page) {
  const list = article.querySelector("[data-ranked]");
  const rows = () => [...list.children];
  let focused = rows()[0];
  let isGrabbed = false;
  let hasAskedToConfirm = false; // the unchanged order was submitted once
  let isChanged = "hasRanks" in list.dataset;

  function updateRanks() {
    let rank = 0;
    for (const [n, row] of rows().entries()) {
      if (n === 0) delete row.dataset.tied;
      rank += "tied" in row.dataset ? 0 : 1;
      row.dataset.rank = rank;
      row.querySelector("[data-place]").textContent = rank;
      row.setAttribute(
        "aria-label",
        `${row.dataset.name}, place ${rank} of ${rows().length}${"tied" in row.dataset ? ", tied with the one above" : ""}`,
      );
    }
  }

  function onChange(message) {
    isChanged = true;
    updateRanks();
    article.dispatchEvent(new Event("change", { bubbles: true }));
    page.showMessage(message ?? focused.getAttribute("aria-label"));
    return true;
  }

  function selectRow(row, moveFocus = true) {
    if (!row) return true;
    focused = row;
    for (const other of rows()) {
      other.classList.toggle("sel", other === row);
      other.classList.toggle("grabbed", other === row && isGrabbed);
    }
    if (moveFocus) row.focus({ preventScroll: true });
    if (moveFocus) row.scrollIntoView({ block: "nearest" });
    return true;
  }

  function moveTo(row, position) {
    const others = rows().filter((other) => other !== row);
    delete row.dataset.tied;
    list.insertBefore(row, others[position] ?? null);
    selectRow(row);
    return onChange();
  }

  function moveBy(delta) {
    const position = rows().indexOf(focused) + delta;
    if (position < 0 || position >= rows().length) return true;
    return isGrabbed ? moveTo(focused, position) : selectRow(rows()[position]);
  }

  function toggleTie() {
    if (focused === list.firstElementChild)
      page.showMessage("The first reply has no reply above it.");
    else {
      if ("tied" in focused.dataset) delete focused.dataset.tied;
      else focused.dataset.tied = "";
      onChange();
    }
    return true;
  }

  function toggleGrab() {
    isGrabbed = !isGrabbed;
    selectRow(focused);
    page.showMessage(
      isGrabbed
        ? `${focused.dataset.name} picked up. Move it, then drop it.`
        : `${focused.dataset.name} dropped at place ${focused.dataset.rank}.`,
    );
    return true;
  }

  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    if (!button) return;
    const row = button.closest("[data-row]");
    const position = rows().indexOf(row) + Number(button.dataset.move);
    if (position >= 0 && position < rows().length) moveTo(row, position);
  });
  list.addEventListener("focusin", (event) => selectRow(event.target.closest("[data-row]"), false));

  // Dragging moves the other rows. The dragged row stays in its place in the document, because it
  // would lose the pointer otherwise.
  const middleOf = (row) =>
    row.getBoundingClientRect().top + row.getBoundingClientRect().height / 2;
  list.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest("[data-handle]");
    if (!handle || event.button > 0) return;
    event.preventDefault();
    const row = handle.closest("[data-row]");
    handle.setPointerCapture(event.pointerId);
    selectRow(row);
    row.classList.add("dragged");
    const drag = ({ clientY }) => {
      const rankBefore = row.dataset.rank;
      while (row.previousElementSibling && clientY < middleOf(row.previousElementSibling))
        row.after(row.previousElementSibling);
      while (row.nextElementSibling && clientY > middleOf(row.nextElementSibling))
        row.before(row.nextElementSibling);
      updateRanks();
      if (row.dataset.rank !== rankBefore) delete row.dataset.tied;
    };
    const stopDragging = () => {
      handle.removeEventListener("pointermove", drag);
      row.classList.remove("dragged");
      onChange();
    };
    handle.addEventListener("pointermove", drag);
    handle.addEventListener("pointerup", stopDragging, { once: true });
    handle.addEventListener("pointercancel", stopDragging, { once: true });
  });

  for (const row of rows()) row.dataset.name = row.getAttribute("aria-label");
  if (isChanged)
    for (const [n, row] of rows().entries())
      if (n && row.dataset.rank === rows()[n - 1].dataset.rank) row.dataset.tied = "";
  updateRanks();
  selectRow(focused, false);

  return {
    onDigit: (key) =>
      key !== "0" && Number(key) <= rows().length && moveTo(focused, Number(key) - 1),
    onArrow: (key) =>
      (key === "ArrowDown" || key === "ArrowUp") && moveBy(key === "ArrowDown" ? 1 : -1),
    onAction: (name) =>
      ({
        next: () => moveBy(1),
        previous: () => moveBy(-1),
        grab: toggleGrab,
        tie_above: toggleTie,
      })[name]?.() ?? false,
    getAnswer() {
      if (!isChanged && !hasAskedToConfirm) {
        hasAskedToConfirm = true;
        return null;
      }
      return {
        ranks: Object.fromEntries(
          rows().map((row) => [row.dataset.rollout, Number(row.dataset.rank)]),
        ),
      };
    },
    missingMessage: () => "You haven’t changed the order. Submit again to confirm it.",
    summarize: () => `${rows().length} replies ranked`,
    focusedRollout: () => focused.dataset.rollout,
    saveState: () => isChanged && rows().map((row) => [row.dataset.rollout, "tied" in row.dataset]),
    restoreState(state) {
      if (!state) return;
      for (const [rollout, tied] of state) {
        const row = rows().find((other) => other.dataset.rollout === rollout);
        if (!row) return;
        list.append(row);
        if (tied) row.dataset.tied = "";
        else delete row.dataset.tied;
      }
      isChanged = true;
      updateRanks();
    },
  };
}
