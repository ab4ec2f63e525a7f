"""Describe answers as short texts: `4 of 5 stars`, `A better`, `2 > 1 = 3`."""

from collections.abc import Mapping, Sequence

from apps.feedback.forms import FORMS
from apps.feedback.models import Rating

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HOW_MUCH = {1: "a little better", 2: "better", 3: "much better"}
MAX_ANSWER_LENGTH = 80


def rating_in_words(rating: Rating) -> str:
    """Return a rating as text, with rollouts lettered by id, whatever order the rater saw."""
    members = sorted(rating.members)
    return describe_answer(
        rating.form, reorder_answer(rating.form, rating.answer, rating.members, members), members
    )


def reorder_answer(form: str, answer: dict, of: Sequence[int], to: Sequence[int]) -> dict:
    """Convert an answer from the rollout order `of` to the order `to`.

    Only a preference depends on it.
    """
    if form == "pairwise" and "preference" in answer and list(of) != list(to):
        return {**answer, "preference": -answer["preference"]}
    return answer


def describe_answer(form: str, answer: Mapping, members: Sequence[int]) -> str:
    """Return an answer of this form as text; rollouts are lettered in the order of `members`."""
    match form:
        case "stars":
            return f"{answer['stars']} of 5 stars"
        case "thumbs":
            return "good" if answer["up"] else "bad"
        case "pairwise":
            return _preference(answer)
        case "ranking":
            return _ranking(answer["ranks"], members)
        case "best_worst":
            return (
                f"best {_letter(answer['best'], members)}, worst"
                f" {_letter(answer['worst'], members)}"
            )
        case "rubric":
            return ", ".join(f"{name} {value}" for name, value in answer["scales"].items())
        case "turns":
            return _turns(answer)
        case "spans":
            return f"{len(answer['spans'])} passages marked"
        case "rewrite":
            return f"“{answer['text'][:MAX_ANSWER_LENGTH]}”"
        case "flag":
            return f"broken: {answer['reason']}"[:MAX_ANSWER_LENGTH]
        case "critique":
            return "critique"
    return FORMS[form].in_words(dict(answer))


def _preference(answer: Mapping) -> str:
    if answer.get("both_bad"):
        return "both bad"
    grade = answer["preference"]
    return f"{'A' if grade < 0 else 'B'} {HOW_MUCH[abs(grade)]}" if grade else "equally good"


def _ranking(ranks: Mapping[str, int], members: Sequence[int]) -> str:
    by_rank: dict[int, list[str]] = {}
    for pk, rank in ranks.items():
        by_rank.setdefault(rank, []).append(_letter(int(pk), members))
    return " > ".join(" = ".join(sorted(by_rank[rank])) for rank in sorted(by_rank))


def _turns(answer: Mapping) -> str:
    if "first_error" in answer:
        return (
            "no errors"
            if answer["first_error"] is None
            else f"first error in turn {answer['first_error'] + 1}"
        )
    marks = list(answer["marks"].values())
    return f"{marks.count(1)} good, {marks.count(0)} neutral, {marks.count(-1)} bad turns"


def _letter(pk: int, members: Sequence[int]) -> str:
    return LETTERS[list(members).index(pk) % len(LETTERS)] if pk in members else "?"
