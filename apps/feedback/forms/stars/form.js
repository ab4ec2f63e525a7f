// One to five stars.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article) {
  const { checkedValue, buildForm } = radioControls(article);
  return buildForm({
    getAnswer: () => (checkedValue("stars") ? { stars: Number(checkedValue("stars")) } : null),
    missingMessage: () => "Give 1 to 5 stars first.",
    summarize: (answer) => `${answer.stars} ${answer.stars === 1 ? "star" : "stars"}`,
    isSingleKey: true,
  });
}
