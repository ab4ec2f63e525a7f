// Order all replies: by digits, by taking one up and moving it, by its arrows, or by dragging it.
// Ties are places shared.
export function begin(article, desk) {
  const list = article.querySelector("[data-ranked]");
  const rows = () => [...list.children];
  let focus = rows()[0];
  let grabbed = false;
  let asked = false; // the order as shown was offered as an answer once
  let touched = "touched" in list.dataset;

  function number() {
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

  function changed(words) {
    touched = true;
    number();
    article.dispatchEvent(new Event("change", { bubbles: true }));
    desk.say(words ?? focus.getAttribute("aria-label"));
    return true;
  }

  function select(row, moveFocus = true) {
    if (!row) return true;
    focus = row;
    for (const one of rows()) {
      one.classList.toggle("sel", one === row);
      one.classList.toggle("grabbed", one === row && grabbed);
    }
    if (moveFocus) row.focus({ preventScroll: true });
    if (moveFocus) row.scrollIntoView({ block: "nearest" });
    return true;
  }

  function moveTo(row, place) {
    const others = rows().filter((one) => one !== row);
    delete row.dataset.tied;
    list.insertBefore(row, others[place] ?? null);
    select(row);
    return changed();
  }

  function step(delta) {
    const place = rows().indexOf(focus) + delta;
    if (place < 0 || place >= rows().length) return true;
    return grabbed ? moveTo(focus, place) : select(rows()[place]);
  }

  function tie() {
    if (focus === list.firstElementChild) desk.say("The first reply has no reply above it.");
    else {
      if ("tied" in focus.dataset) delete focus.dataset.tied;
      else focus.dataset.tied = "";
      changed();
    }
    return true;
  }

  function grab() {
    grabbed = !grabbed;
    select(focus);
    desk.say(
      grabbed
        ? `${focus.dataset.name} picked up. Move it, then drop it.`
        : `${focus.dataset.name} dropped at place ${focus.dataset.rank}.`,
    );
    return true;
  }

  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    if (!button) return;
    const row = button.closest("[data-row]");
    const place = rows().indexOf(row) + Number(button.dataset.move);
    if (place >= 0 && place < rows().length) moveTo(row, place);
  });
  list.addEventListener("focusin", (event) => select(event.target.closest("[data-row]"), false));

  // Dragging: the others make room. The row itself stays in its place in the document, or it would
  // lose the pointer.
  const middle = (row) => row.getBoundingClientRect().top + row.getBoundingClientRect().height / 2;
  list.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest("[data-handle]");
    if (!handle || event.button > 0) return;
    event.preventDefault();
    const row = handle.closest("[data-row]");
    handle.setPointerCapture(event.pointerId);
    select(row);
    row.classList.add("dragged");
    const follow = ({ clientY }) => {
      const before = row.dataset.rank;
      while (row.previousElementSibling && clientY < middle(row.previousElementSibling))
        row.after(row.previousElementSibling);
      while (row.nextElementSibling && clientY > middle(row.nextElementSibling))
        row.before(row.nextElementSibling);
      number();
      if (row.dataset.rank !== before) delete row.dataset.tied;
    };
    const end = () => {
      handle.removeEventListener("pointermove", follow);
      row.classList.remove("dragged");
      changed();
    };
    handle.addEventListener("pointermove", follow);
    handle.addEventListener("pointerup", end, { once: true });
    handle.addEventListener("pointercancel", end, { once: true });
  });

  for (const row of rows()) row.dataset.name = row.getAttribute("aria-label");
  if (touched)
    for (const [n, row] of rows().entries())
      if (n && row.dataset.rank === rows()[n - 1].dataset.rank) row.dataset.tied = "";
  number();
  select(focus, false);

  return {
    digit: (key) => key !== "0" && Number(key) <= rows().length && moveTo(focus, Number(key) - 1),
    arrow: (key) =>
      (key === "ArrowDown" || key === "ArrowUp") && step(key === "ArrowDown" ? 1 : -1),
    act: (name) =>
      ({ next: () => step(1), previous: () => step(-1), grab, tie_above: tie })[name]?.() ?? false,
    answer() {
      if (!touched && !asked) {
        asked = true;
        return null;
      }
      return {
        ranks: Object.fromEntries(
          rows().map((row) => [row.dataset.rollout, Number(row.dataset.rank)]),
        ),
      };
    },
    missing: () => "You haven’t changed the order. Submit again to confirm it.",
    describe: () => `${rows().length} replies ranked`,
    inFocus: () => focus.dataset.rollout,
    state: () => touched && rows().map((row) => [row.dataset.rollout, "tied" in row.dataset]),
    restore(state) {
      if (!state) return;
      for (const [rollout, tied] of state) {
        const row = rows().find((one) => one.dataset.rollout === rollout);
        if (!row) return;
        list.append(row);
        if (tied) row.dataset.tied = "";
        else delete row.dataset.tied;
      }
      touched = true;
      number();
    },
  };
}
