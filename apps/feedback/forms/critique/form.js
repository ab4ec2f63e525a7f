// The critique has only words: the box that every form has.
import { withChoices } from "/static/js/rate/choices.js";

export function begin(article, desk) {
  const { form } = withChoices(article);
  return form({
    answer: () => (desk.critique().trim() ? {} : null),
    missing: () => "Write a critique first.",
    describe: () => "critique",
  });
}
