// The best and the worst of several: choosing a reply for one end takes it from the other.
import { withChoices } from "/static/js/rate/choices.js";

export function begin(article) {
  const { rows, chosen, named, pick, go, inFocus, form } = withChoices(article);
  const other = { best: "worst", worst: "best" };
  article.addEventListener("change", ({ target }) => {
    if (!target.checked || !(target.name in other)) return;
    const input = named(other[target.name], target.value);
    if (input) input.checked = false;
  });

  function choose(end, row) {
    const rollout = row.dataset.rollout;
    if (chosen(other[end]) === rollout) pick(named(other[end], rollout), false);
    return pick(named(end, rollout), chosen(end) !== rollout);
  }

  function digit(key) {
    const row = rows.find((one) => one.dataset.digit === key);
    if (!row) return false;
    go(rows.indexOf(row));
    const isBest = chosen("best") === row.dataset.rollout || !chosen("best");
    return choose(isBest ? "best" : "worst", row);
  }

  const letter = (rollout) =>
    String.fromCharCode(65 + rows.findIndex((row) => Number(row.dataset.rollout) === rollout));
  return form({
    digit,
    answer: () =>
      chosen("best") && chosen("worst")
        ? { best: Number(chosen("best")), worst: Number(chosen("worst")) }
        : null,
    missing: () =>
      chosen("best") ? "Choose the worst reply first." : "Choose the best reply first.",
    describe: (answer) => `best ${letter(answer.best)}, worst ${letter(answer.worst)}`,
    acts: { best: () => choose("best", inFocus()), worst: () => choose("worst", inFocus()) },
  });
}
