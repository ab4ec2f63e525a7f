// A value on each scale of a rubric.
import { radioControls } from "/static/js/rate/radio_form.js";

export function createForm(article) {
  const { rows, checkedNumbers, buildForm } = radioControls(article);
  const missingScales = () =>
    rows
      .filter((row) => row.dataset.scale && !row.querySelector("input:checked"))
      .map((row) => row.dataset.scale);
  return buildForm({
    getAnswer: () => (missingScales().length ? null : { scales: checkedNumbers("scale:") }),
    missingMessage: () => `Not rated yet: ${missingScales().join(", ")}.`,
    summarize: (answer) =>
      Object.entries(answer.scales)
        .map(([name, value]) => `${name} ${value}`)
        .join(", "),
  });
}
