import { withChoices } from "/static/js/rate/choices.js";

export function begin(article) {
  const { chosen, named, pick, form } = withChoices(article);
  return form({
    answer: () => (chosen("up") ? { up: chosen("up") === "yes" } : null),
    missing: () => "Choose 1 (bad) or 2 (good) first.",
    describe: (answer) => (answer.up ? "good" : "bad"),
    isOneKey: true,
    swipe: (side) => pick(named("up", side === "right" ? "yes" : "no")),
  });
}
