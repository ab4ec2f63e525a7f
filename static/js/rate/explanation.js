// The explanation of the correct rating of a norming item, which is shown after the rater's own.
import { find } from "./messages.js";

// `rating` is the rater's rating in words, `gold` the server's answer about the correct one.
export function renderExplanation(stage, rating, gold) {
  const card = document.importNode(find("[data-explained]").content.firstElementChild, true);
  find("[data-verdict]", card).textContent = gold.met
    ? "Correct"
    : "The correct rating is different";
  find("[data-yours]", card).textContent = rating;
  find("[data-correct]", card).textContent = gold.words;
  find("[data-others]", card).textContent =
    `${gold.others.met} of ${gold.others.of} gave the correct rating`;
  find("[data-why]", card).textContent = gold.explanation;
  stage.replaceChildren(card);
  card.focus({ preventScroll: true });
}
