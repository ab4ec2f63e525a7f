"""Answers of the simulated rater in each form, from the rule's value of each reply, with noise.

It compares and marks, but writes no text: items that ask for text wait for people.
"""

import random
from collections.abc import Sequence

from apps.feedback.forms import FORMS, Answer
from apps.runs.people import People

SCATTER = 0.12  # standard deviation of the noise, on values between 0 and 1
TIE = 0.08  # values closer than this count as a tie
WRITES_NOTHING = frozenset({"spans", "critique", "rewrite"})


def simulate_answer(
    form: str, shown: Sequence[int], worth: Sequence[float], people: People, turns: int, seed: int
) -> Answer | None:
    """Return the rater's answer about these rollouts, in the order shown.

    Returns None for a form that asks for text, or a plugin that leaves its items to people.
    """
    if form in WRITES_NOTHING:
        return None
    generator = random.Random(seed)
    felt = [min(1.0, max(0.0, value + generator.gauss(0, SCATTER))) for value in worth]
    if form == "pairwise":
        return {"preference": _preference(felt[0], felt[1])}
    if form == "ranking":
        return {
            "ranks": {
                str(pk): 1 + sum(other_value > value + TIE for other_value in felt)
                for pk, value in zip(shown, felt, strict=True)
            }
        }
    if form == "best_worst":
        ordered = sorted(zip(felt, shown, strict=True))
        return {"best": ordered[-1][1], "worst": ordered[0][1]}
    return _answer_single(form, felt[0], people, turns)


def _answer_single(form: str, felt: float, people: People, turns: int) -> Answer | None:
    """Return the rater's answer about one reply."""
    match form:
        case "thumbs":
            return {"up": felt >= 0.5}
        case "stars":
            return {"stars": 1 + round(4 * felt)}
        case "rubric":
            return {
                "scales": {
                    scale.name: scale.low + round((scale.high - scale.low) * felt)
                    for scale in people.rubric
                }
            }
        case "turns":
            mark = 1 if felt >= 0.75 else -1 if felt < 0.25 else 0
            return {"marks": {str(turn): mark for turn in range(turns)}}
    return FORMS[form].answer_worth(felt, people)


def _preference(first: float, second: float) -> int:
    """Return −3 (the first is much better) to 3; 0 without a visible difference."""
    if abs(first - second) <= TIE:
        return 0
    degree = min(3, max(1, round(4 * abs(first - second))))
    return -degree if first > second else degree
