// Controls for rating forms of radio buttons. The key printed on a button (data-key) checks it; in
// a form with rows (data-row), this applies to the focused row. A form's script calls
// `radioControls(article)` and returns `buildForm({ getAnswer, missingMessage, summarize, … })`.
export function radioControls(article, isStepped = false) {
  const rows = [...article.querySelectorAll("[data-row]")];
  const inputs = [...article.querySelectorAll("input[type=radio]")];
  const hasOwnKeys = (row) => row?.querySelector("[data-key]") !== null;
  const hasRowFocus = rows.length > 1 || isStepped;
  let position = 0;

  // Check or uncheck a button as if the rater did it. Returns false if there is none.
  function check(input, isChecked = true) {
    if (!input) return false;
    input.checked = isChecked;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    return true;
  }

  // Focus a row. Returns false if the form has only one.
  function focusRow(index, movesFocus = true) {
    if (!hasRowFocus) return false;
    position = Math.min(rows.length - 1, Math.max(0, index));
    rows.forEach((row, n) => row.classList.toggle("sel", n === position));
    if (movesFocus) {
      if (rows[position].tabIndex === 0) rows[position].focus({ preventScroll: true });
      rows[position].scrollIntoView({ block: "nearest" });
    }
    return true;
  }

  const checkedValue = (name) =>
    inputs.find((input) => input.name === name && input.checked)?.value;
  const findInput = (name, value) =>
    inputs.find((input) => input.name === name && input.value === String(value));

  function uncheck(matches) {
    for (const input of inputs) if (input.checked && matches(input)) input.checked = false;
  }

  article.addEventListener("focusin", (event) => {
    const row = rows.indexOf(event.target.closest("[data-row]"));
    if (row >= 0) focusRow(row, false);
  });
  if (hasRowFocus) focusRow(0, false);

  function onDigit(key) {
    const scope = hasRowFocus && hasOwnKeys(rows[position]) ? rows[position] : article;
    const input = scope.querySelector(`input[data-key="${key}"]`);
    if (!input) return false;
    check(input);
    if (scope !== article) focusRow(position + 1);
    return true;
  }

  // Return the checked values of the groups whose names begin with the prefix, as numbers, by the
  // rest of the name.
  function checkedNumbers(prefix) {
    const checked = inputs.filter((input) => input.checked && input.name.startsWith(prefix));
    return Object.fromEntries(
      checked.map((input) => [input.name.slice(prefix.length), Number(input.value)]),
    );
  }

  // Return the form that the rating page uses. `options` has getAnswer(), missingMessage() and
  // summarize(answer), and overrides any default.
  function buildForm({ actions = {}, ...options }) {
    const allActions = {
      next: () => focusRow(position + 1),
      previous: () => focusRow(position - 1),
      ...actions,
    };
    return {
      onDigit,
      onArrow: (key) =>
        (key === "ArrowDown" && focusRow(position + 1)) ||
        (key === "ArrowUp" && focusRow(position - 1)),
      onAction: (name) => allActions[name]?.() ?? false,
      focusedRollout: () => rows[position]?.dataset.rollout,
      isSingleKey: false,
      onSwipe: null,
      saveState: () =>
        inputs.filter((input) => input.checked).map((input) => [input.name, input.value]),
      restoreState: (state) =>
        state.forEach(([name, value]) => {
          const input = findInput(name, value);
          if (input) input.checked = true;
        }),
      ...options,
    };
  }

  return {
    rows,
    inputs,
    focusedRow: () => rows[position],
    check,
    focusRow,
    checkedValue,
    findInput,
    uncheck,
    checkedNumbers,
    buildForm,
  };
}
