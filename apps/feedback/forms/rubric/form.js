import { withChoices } from "/static/js/rate/choices.js";

export function begin(article) {
  const { rows, numbers, form } = withChoices(article);
  const unjudged = () =>
    rows
      .filter((row) => row.dataset.scale && !row.querySelector("input:checked"))
      .map((row) => row.dataset.scale);
  return form({
    answer: () => (unjudged().length ? null : { scales: numbers("scale:") }),
    missing: () => `Not rated yet: ${unjudged().join(", ")}.`,
    describe: (answer) =>
      Object.entries(answer.scales)
        .map(([name, value]) => `${name} ${value}`)
        .join(", "),
  });
}
