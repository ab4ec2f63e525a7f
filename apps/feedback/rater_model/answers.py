"""From a canonical answer of any form to what the rater model learns of it: a number, or orders among the replies shown."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apps.feedback.forms import FORMS
from apps.feedback.forms.pairwise import STRONGEST
from apps.feedback.rater_model.learner import Compared, Valued
from apps.feedback.rater_model.linear import Order
from apps.feedback.rater_model.reading import Seen, words_of
from apps.runs.people import COMPARES, People

Decision = Valued | Compared


def learnable(
    form: str, answer: Mapping, shown: Sequence[int], rater: int, replies: Mapping[int, Seen], people: People
) -> Decision | None:
    """What there is to learn, or None: from words without a number, or about replies that cannot be read (yet)."""
    if any(rollout not in replies for rollout in shown):
        return None
    if form == "rewrite":
        return _rewritten(answer["text"], replies[shown[0]], rater)
    if form in COMPARES:
        orders = ORDERS[form](answer, shown)
        return Compared(tuple(replies[rollout] for rollout in shown), tuple(orders), rater) if orders else None
    value = FORMS[form].values(answer, shown, people).get(shown[0])
    return None if value is None else Valued(replies[shown[0]], value, rater)


def _rewritten(text: str, original: Seen, rater: int) -> Compared | None:
    """The rewrite is better; of what surprises it says nothing, since nobody sampled it."""
    better = replace(original, words=frozenset(words_of(text)))
    return None if better.words == original.words else Compared((better, original), (Order(0, (1,)),), rater)


def _pairwise(answer: Mapping, shown: Sequence[int]) -> list[Order]:
    """A graded preference is a share of either order: ±3 the whole, 0 a half of each. Two bad ones are not ordered."""
    if "both_bad" in answer:
        return []
    second = (answer["preference"] + STRONGEST) / (2 * STRONGEST)
    return [Order(b, (w,), share) for b, w, share in ((1, 0, second), (0, 1, 1 - second)) if share > 0]


def _ranking(answer: Mapping, shown: Sequence[int]) -> list[Order]:
    """Each place is chosen from among what is not placed yet; of equals each is chosen from all (Breslow's approximation)."""
    ranks = [answer["ranks"][str(rollout)] for rollout in shown]
    orders = []
    for n, rank in enumerate(ranks):
        rest = tuple(m for m, other in enumerate(ranks) if m != n and other >= rank)
        if any(ranks[m] > rank for m in rest):
            orders.append(Order(n, rest))
    return orders


def _best_worst(answer: Mapping, shown: Sequence[int]) -> list[Order]:
    best, worst = shown.index(answer["best"]), shown.index(answer["worst"])
    others = [n for n in range(len(shown)) if n not in (best, worst)]
    return [Order(best, (*others, worst)), *(Order(n, (worst,)) for n in others)]


ORDERS = {"pairwise": _pairwise, "ranking": _ranking, "best_worst": _best_worst}
