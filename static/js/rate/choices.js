// What rating forms made of radio buttons share. A key printed on a button gives its value, in the
// row in focus where there are rows (data-row). A form's script calls `withChoices(article)` and
// returns `form({ answer, missing, describe, … })`.
export function withChoices(article, hasSteps = false) {
  const rows = [...article.querySelectorAll("[data-row]")];
  const inputs = [...article.querySelectorAll("input[type=radio]")];
  const hasOwnKeys = (row) => row?.querySelector("[data-key]") !== null;
  const steps = rows.length > 1 || hasSteps;
  let place = 0;

  function pick(input, on = true) {
    if (!input) return false;
    input.checked = on;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    return true;
  }

  function go(to, focus = true) {
    if (!steps) return false;
    place = Math.min(rows.length - 1, Math.max(0, to));
    rows.forEach((row, n) => row.classList.toggle("sel", n === place));
    if (focus) {
      if (rows[place].tabIndex === 0) rows[place].focus({ preventScroll: true });
      rows[place].scrollIntoView({ block: "nearest" });
    }
    return true;
  }

  const chosen = (name) => inputs.find((input) => input.name === name && input.checked)?.value;
  const named = (name, value) =>
    inputs.find((input) => input.name === name && input.value === String(value));

  function clear(test) {
    for (const input of inputs) if (input.checked && test(input)) input.checked = false;
  }

  article.addEventListener("focusin", (event) => {
    const row = rows.indexOf(event.target.closest("[data-row]"));
    if (row >= 0) go(row, false);
  });
  if (steps) go(0, false);

  function digit(key) {
    const scope = steps && hasOwnKeys(rows[place]) ? rows[place] : article;
    const input = scope.querySelector(`input[data-key="${key}"]`);
    if (!input) return false;
    pick(input);
    if (scope !== article) go(place + 1);
    return true;
  }

  // The values chosen in the groups of buttons whose names begin with this, as numbers, by the rest
  // of the name.
  function numbers(prefix) {
    const own = inputs.filter((input) => input.checked && input.name.startsWith(prefix));
    return Object.fromEntries(
      own.map((input) => [input.name.slice(prefix.length), Number(input.value)]),
    );
  }

  // The form as the page drives it; `own` has answer(), missing() and describe(answer), and what
  // differs from the usual.
  function form({ acts = {}, ...own }) {
    const all = { next: () => go(place + 1), previous: () => go(place - 1), ...acts };
    return {
      digit,
      arrow: (key) =>
        (key === "ArrowDown" && go(place + 1)) || (key === "ArrowUp" && go(place - 1)),
      act: (name) => all[name]?.() ?? false,
      inFocus: () => rows[place]?.dataset.rollout,
      isOneKey: false,
      swipe: null,
      state: () =>
        inputs.filter((input) => input.checked).map((input) => [input.name, input.value]),
      restore: (state) =>
        state.forEach(([name, value]) => {
          const input = named(name, value);
          if (input) input.checked = true;
        }),
      ...own,
    };
  }

  return {
    rows,
    inputs,
    inFocus: () => rows[place],
    pick,
    go,
    chosen,
    named,
    clear,
    numbers,
    form,
  };
}
