// The better of two replies, on a scale of seven steps, or both bad.
import { radioControls } from "/static/js/rate/radio_form.js";
import { initPairDiff } from "/static/js/rate/pair_diff.js";

const LABELS = [
  "A much better",
  "A better",
  "A a little better",
  "equally good",
  "B a little better",
  "B better",
  "B much better",
];
const MAX_STRENGTH = 3;

export function createForm(article) {
  const { checkedValue, findInput, check, buildForm } = radioControls(article);
  const toggleDiff = initPairDiff(article);
  const preference = () => Number(checkedValue("preference")) || 0;

  // Prefer one side. Repeated presses prefer it more strongly, and start again after the strongest.
  function prefer(side) {
    const strength =
      preference() * side > 0 && preference() * side < MAX_STRENGTH
        ? Math.abs(preference()) + 1
        : 1;
    return check(findInput("preference", side * strength));
  }

  function onArrow(key) {
    if (key === "ArrowDown") return check(findInput("preference", 0));
    if (key === "ArrowLeft")
      return check(findInput("preference", Math.max(-MAX_STRENGTH, preference() - 1)));
    return (
      key === "ArrowRight" &&
      check(findInput("preference", Math.min(MAX_STRENGTH, preference() + 1)))
    );
  }

  function getAnswer() {
    const value = checkedValue("preference");
    if (!value) return null;
    return value === "both_bad" ? { both_bad: true } : { preference: Number(value) };
  }

  return buildForm({
    getAnswer,
    missingMessage: () => "Choose the better reply, or a tie, first.",
    summarize: (answer) =>
      answer.both_bad ? "both bad" : LABELS[answer.preference + MAX_STRENGTH],
    onArrow,
    actions: {
      difference: toggleDiff,
      first: () => prefer(-1),
      second: () => prefer(1),
      tie: () => check(findInput("preference", 0)),
      both_bad: () => check(findInput("preference", "both_bad")),
    },
    isSingleKey: true,
    // `isReordered`: the replies have changed sides since the draft was saved.
    restoreState: (state, isReordered) =>
      state.forEach(([name, value]) => {
        const input = findInput(
          name,
          isReordered && name === "preference" && value !== "both_bad" ? -value : value,
        );
        if (input) input.checked = true;
      }),
  });
}
