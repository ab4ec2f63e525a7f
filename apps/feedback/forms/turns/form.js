// Marks on turns, or the first wrong one: the one takes back the other.
import { withChoices } from "/static/js/rate/choices.js";

export function begin(article) {
  const { chosen, named, pick, clear, numbers, inFocus, form } = withChoices(article, true);
  article.addEventListener("change", ({ target }) => {
    if (!target.checked) return;
    if (target.name === "first_error") clear((input) => input.name.startsWith("turn:"));
    else if (target.name?.startsWith("turn:")) clear((input) => input.name === "first_error");
  });

  function answer() {
    const first = chosen("first_error");
    if (first) return { first_error: first === "none" ? null : Number(first) };
    const marks = numbers("turn:");
    return Object.keys(marks).length ? { marks } : null;
  }

  function describe(given) {
    if ("marks" in given) return `${Object.keys(given.marks).length} turns marked`;
    return given.first_error === null
      ? "no errors"
      : `first error in reply ${given.first_error + 1}`;
  }

  return form({
    answer,
    missing: () => "Mark a turn, mark the first error, or choose “No errors”.",
    describe,
    acts: {
      first_error: () => pick(named("first_error", inFocus()?.dataset.turn)),
      no_error: () => pick(named("first_error", "none")),
    },
  });
}
