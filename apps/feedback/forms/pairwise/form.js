import { withChoices } from "/static/js/rate/choices.js";
import { begin as beginDifference } from "/static/js/rate/difference.js";

const WORDS = [
  "A much better",
  "A better",
  "A a little better",
  "equally good",
  "B a little better",
  "B better",
  "B much better",
];
const STRONGEST = 3;

export function begin(article) {
  const { chosen, named, pick, form } = withChoices(article);
  const turnDifference = beginDifference(article);
  const now = () => Number(chosen("preference")) || 0;

  // Again on the same side: more clearly, and round.
  function lean(side) {
    const more = now() * side > 0 && now() * side < STRONGEST ? Math.abs(now()) + 1 : 1;
    return pick(named("preference", side * more));
  }

  function arrow(key) {
    if (key === "ArrowDown") return pick(named("preference", 0));
    if (key === "ArrowLeft") return pick(named("preference", Math.max(-STRONGEST, now() - 1)));
    return key === "ArrowRight" && pick(named("preference", Math.min(STRONGEST, now() + 1)));
  }

  function answer() {
    const preference = chosen("preference");
    if (!preference) return null;
    return preference === "both_bad" ? { both_bad: true } : { preference: Number(preference) };
  }

  return form({
    answer,
    missing: () => "Choose the better reply, or a tie, first.",
    describe: (given) => (given.both_bad ? "both bad" : WORDS[given.preference + STRONGEST]),
    arrow,
    acts: {
      difference: turnDifference,
      first: () => lean(-1),
      second: () => lean(1),
      tie: () => pick(named("preference", 0)),
      both_bad: () => pick(named("preference", "both_bad")),
    },
    isOneKey: true,
    // `isTurned`: the sides have changed since the draft.
    restore: (state, isTurned) =>
      state.forEach(([name, value]) => {
        const input = named(
          name,
          isTurned && name === "preference" && value !== "both_bad" ? -value : value,
        );
        if (input) input.checked = true;
      }),
  });
}
