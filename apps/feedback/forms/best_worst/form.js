// The best and the worst of several replies. A reply can't be both.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article) {
  const { rows, checkedValue, findInput, check, focusRow, focusedRow, buildForm } =
    radioControls(article);
  const other = { best: "worst", worst: "best" };
  article.addEventListener("change", ({ target }) => {
    if (!target.checked || !(target.name in other)) return;
    const input = findInput(other[target.name], target.value);
    if (input) input.checked = false;
  });

  function choose(end, row) {
    const rollout = row.dataset.rollout;
    if (checkedValue(other[end]) === rollout) check(findInput(other[end], rollout), false);
    return check(findInput(end, rollout), checkedValue(end) !== rollout);
  }

  function onDigit(key) {
    const row = rows.find((candidate) => candidate.dataset.digit === key);
    if (!row) return false;
    focusRow(rows.indexOf(row));
    const isBest = checkedValue("best") === row.dataset.rollout || !checkedValue("best");
    return choose(isBest ? "best" : "worst", row);
  }

  const letter = (rollout) =>
    String.fromCharCode(65 + rows.findIndex((row) => Number(row.dataset.rollout) === rollout));
  return buildForm({
    onDigit,
    getAnswer: () =>
      checkedValue("best") && checkedValue("worst")
        ? { best: Number(checkedValue("best")), worst: Number(checkedValue("worst")) }
        : null,
    missingMessage: () =>
      checkedValue("best") ? "Choose the worst reply first." : "Choose the best reply first.",
    summarize: (answer) => `best ${letter(answer.best)}, worst ${letter(answer.worst)}`,
    actions: {
      best: () => choose("best", focusedRow()),
      worst: () => choose("worst", focusedRow()),
    },
  });
}
