import { withChoices } from "/static/js/rate/choices.js";

export function begin(article) {
  const { chosen, form } = withChoices(article);
  return form({
    answer: () => (chosen("stars") ? { stars: Number(chosen("stars")) } : null),
    missing: () => "Give 1 to 5 stars first.",
    describe: (answer) => `${answer.stars} ${answer.stars === 1 ? "star" : "stars"}`,
    isOneKey: true,
  });
}
