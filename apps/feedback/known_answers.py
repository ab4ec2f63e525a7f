"""Check answers to items with a known answer, and give the rater feedback."""

from collections.abc import Sequence

from apps.feedback.answer_texts import describe_answer, reorder_answer
from apps.feedback.forms import FORMS
from apps.feedback.models import NORMING, Item, Rating
from apps.runs.people import People

NEAR_ENOUGH = 0.25  # of the scale: one star of five


def is_told(item: Item, people: People) -> bool:
    """Tell whether the rater is shown the right answer, after which the decision is final."""
    return item.expected is not None and (people.gold.feedback or item.purpose == NORMING)


def reveal_known_answer(
    item: Item, answer: dict, shown: Sequence[int] | None, people: People
) -> dict | None:
    """Return whether the known answer was met, and that answer as text in the rater's order.

    For a norming item, also how many people have rated it, and how many of them correctly.
    """
    if item.expected is None or not is_told(item, people):
        return None
    order = list(shown or item.members)
    right = reorder_answer(item.form, item.expected, sorted(item.members), order)
    is_right = meets_known_answer(item.form, answer, item.expected, order, people)
    rater_counts = {"others": _count_raters(item, people)} if item.purpose == NORMING else {}
    return {
        "met": is_right,
        "expected": right,
        "words": describe_answer(item.form, right, order),
        "explanation": item.explanation,
        **rater_counts,
    }


def _count_raters(item: Item, people: People) -> dict[str, int]:
    """Return how many people have rated the item, and how many of them correctly."""
    ratings = Rating.objects.counting().by_people().filter(item=item.pk)
    met_by = [is_met(item, rating, people) for rating in ratings.only("form", "answer", "shown")]
    return {"met": sum(met_by), "of": len(met_by)}


def is_met(item: Item, rating: Rating, people: People) -> bool:
    """Tell whether a rating of the item met its known answer."""
    return rating.form == item.form and meets_known_answer(
        item.form, rating.answer, item.expected, rating.members, people
    )


def meets_known_answer(
    form: str, answer: dict, expected: dict | None, shown: Sequence[int], people: People
) -> bool:
    """Tell whether an answer agrees with the known one, within a quarter of the scale everywhere.

    `expected` refers to the item's members in their order; both are compared by the rollouts'
    values. An answer of another form (a flag) does not meet it, and none meets an unknown one.
    """
    if expected is None:
        return False
    try:
        values = FORMS[form].values(answer, shown, people)
    except KeyError:
        return False
    right = FORMS[form].values(expected, sorted(shown), people)
    return bool(right) and all(
        rollout in values and abs(values[rollout] - value) <= NEAR_ENOUGH
        for rollout, value in right.items()
    )
