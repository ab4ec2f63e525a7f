// Marks on turns, or the first turn with an error. Choosing one clears the other.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article) {
  const { checkedValue, findInput, check, uncheck, checkedNumbers, focusedRow, buildForm } =
    radioControls(article, true);
  article.addEventListener("change", ({ target }) => {
    if (!target.checked) return;
    if (target.name === "first_error") uncheck((input) => input.name.startsWith("turn:"));
    else if (target.name?.startsWith("turn:")) uncheck((input) => input.name === "first_error");
  });

  function getAnswer() {
    const firstError = checkedValue("first_error");
    if (firstError) return { first_error: firstError === "none" ? null : Number(firstError) };
    const marks = checkedNumbers("turn:");
    return Object.keys(marks).length ? { marks } : null;
  }

  function summarize(answer) {
    if ("marks" in answer) return `${Object.keys(answer.marks).length} turns marked`;
    return answer.first_error === null
      ? "no errors"
      : `first error in reply ${answer.first_error + 1}`;
  }

  return buildForm({
    getAnswer,
    missingMessage: () => "Mark a turn, mark the first error, or choose “No errors”.",
    summarize,
    actions: {
      first_error: () => check(findInput("first_error", focusedRow()?.dataset.turn)),
      no_error: () => check(findInput("first_error", "none")),
    },
  });
}
