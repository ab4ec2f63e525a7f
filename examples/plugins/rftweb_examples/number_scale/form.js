// Drives the item: a key that is printed on a button (data-key) chooses it.
import { withChoices } from "/static/js/rate/choices.js";

export function begin(article) {
  const { chosen, form } = withChoices(article);
  return form({
    answer: () => (chosen("point") ? { point: Number(chosen("point")) } : null),
    missing: () => "Choose a point on the scale first.",
    describe: (answer) => `point ${answer.point}`,
    isOneKey: true, // a rater can have an answer of one key sent at once
  });
}
