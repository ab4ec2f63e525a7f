"""Convert canonical answers to the rater model's training data: values or orders."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apps.feedback.forms import FORMS, Answer
from apps.feedback.forms.pairwise.form import STRONGEST
from apps.feedback.rater_model.learner import ComparedReplies, ValuedReply
from apps.feedback.rater_model.linear import Order
from apps.feedback.rater_model.reading import ReplyFeatures, split_words_and_marks
from apps.runs.people import COMPARES, People

Decision = ValuedReply | ComparedReplies


def read_learnable_decision(
    form: str,
    answer: Answer,
    shown: Sequence[int],
    rater: int,
    replies: Mapping[int, ReplyFeatures],
    people: People,
) -> Decision | None:
    """Return the decision to learn, or None.

    None means that the answer is a text without a value, or about replies that cannot be read
    (yet).
    """
    if any(rollout not in replies for rollout in shown):
        return None
    if form == "rewrite":
        return _rewritten(answer["text"], replies[shown[0]], rater)
    if form in COMPARES:
        orders = ORDERS[form](answer, shown)
        return (
            ComparedReplies(tuple(replies[rollout] for rollout in shown), tuple(orders), rater)
            if orders
            else None
        )
    value = FORMS[form].values(answer, shown, people).get(shown[0])
    return None if value is None else ValuedReply(replies[shown[0]], value, rater)


def _rewritten(text: str, original: ReplyFeatures, rater: int) -> ComparedReplies | None:
    """Return the order that the rewrite is better.

    The rewrite's base NLL is unknown, since it was not sampled.
    """
    better = replace(original, words=frozenset(split_words_and_marks(text)))
    return (
        None
        if better.words == original.words
        else ComparedReplies((better, original), (Order(0, (1,)),), rater)
    )


def _pairwise(answer: Mapping, shown: Sequence[int]) -> list[Order]:
    """Return a graded preference as shares of both orders: ±3 is the whole, 0 is half of each.

    Two bad replies are not ordered.
    """
    if "both_bad" in answer:
        return []
    second = (answer["preference"] + STRONGEST) / (2 * STRONGEST)
    return [
        Order(b, (w,), share) for b, w, share in ((1, 0, second), (0, 1, 1 - second)) if share > 0
    ]


def _ranking(answer: Mapping, shown: Sequence[int]) -> list[Order]:
    """Return a ranking as choices, each among the replies not placed yet.

    Equal replies are each chosen from all of them (Breslow's approximation).
    """
    ranks = [answer["ranks"][str(rollout)] for rollout in shown]
    orders = []
    for n, rank in enumerate(ranks):
        remaining = tuple(m for m, other_rank in enumerate(ranks) if m != n and other_rank >= rank)
        if any(ranks[m] > rank for m in remaining):
            orders.append(Order(n, remaining))
    return orders


def _best_worst(answer: Mapping, shown: Sequence[int]) -> list[Order]:
    best = shown.index(answer["best"])
    worst = shown.index(answer["worst"])
    middle = [n for n in range(len(shown)) if n not in (best, worst)]
    return [Order(best, (*middle, worst)), *(Order(n, (worst,)) for n in middle)]


ORDERS = {"pairwise": _pairwise, "ranking": _ranking, "best_worst": _best_worst}
