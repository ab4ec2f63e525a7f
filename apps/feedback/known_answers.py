"""Items whose right answer is known: whether an answer meets it, and what the rater is told."""

from collections.abc import Sequence

from apps.feedback.forms import FORMS
from apps.feedback.models import Item, Rating
from apps.feedback.saying import in_order, in_words
from apps.runs.people import People

NEAR_ENOUGH = 0.25  # of the scale: one star of five


def is_told(item: Item, people: People) -> bool:
    """Whether the rater hears the right answer: then a decision cannot be changed or taken back."""
    return item.expected is not None and people.gold.feedback


def told(item: Item, answer: dict, shown: Sequence[int] | None, people: People) -> dict | None:
    """Whether the known answer was met, and it in words for the order in which the rater saw the rollouts."""
    if not is_told(item, people):
        return None
    order = list(shown or item.members)
    right = in_order(item.form, item.expected, sorted(item.members), order)
    is_right = met(item.form, answer, item.expected, order, people)
    return {"met": is_right, "expected": right, "words": in_words(item.form, right, order), "explanation": item.explanation}


def is_met(item: Item, rating: Rating, people: People) -> bool:
    """Whether a rating of the item met its known answer."""
    return rating.form == item.form and met(item.form, rating.answer, item.expected, rating.members, people)


def met(form: str, answer: dict, expected: dict, shown: Sequence[int], people: People) -> bool:
    """Whether an answer agrees with the known one: nowhere further from it than a quarter of the scale.

    `expected` is written for the item's members in their order; both are compared by what they say each rollout is worth.
    An answer of another form (a flag) does not meet it.
    """
    try:
        said = FORMS[form].values(answer, shown, people)
    except KeyError:
        return False
    right = FORMS[form].values(expected, sorted(shown), people)
    return bool(right) and all(rollout in said and abs(said[rollout] - value) <= NEAR_ENOUGH for rollout, value in right.items())
