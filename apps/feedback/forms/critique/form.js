// A critique alone: the form has only the text field that every form has.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article, page) {
  const { buildForm } = radioControls(article);
  return buildForm({
    getAnswer: () => (page.getCritique().trim() ? {} : null),
    missingMessage: () => "Write a critique first.",
    summarize: () => "critique",
  });
}
