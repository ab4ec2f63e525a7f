// One point on a scale. The key printed on a button (data-key) checks it.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article) {
  const { checkedValue, buildForm } = radioControls(article);
  return buildForm({
    getAnswer: () => (checkedValue("point") ? { point: Number(checkedValue("point")) } : null),
    missingMessage: () => "Choose a point on the scale first.",
    summarize: (answer) => `point ${answer.point}`,
    isSingleKey: true, // with auto-submit, one key rates the item
  });
}
