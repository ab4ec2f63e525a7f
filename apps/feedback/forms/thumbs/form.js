// Good or bad.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article) {
  const { checkedValue, findInput, check, buildForm } = radioControls(article);
  return buildForm({
    getAnswer: () => (checkedValue("up") ? { up: checkedValue("up") === "yes" } : null),
    missingMessage: () => "Choose 1 (bad) or 2 (good) first.",
    summarize: (answer) => (answer.up ? "good" : "bad"),
    isSingleKey: true,
    onSwipe: (side) => check(findInput("up", side === "right" ? "yes" : "no")),
  });
}
