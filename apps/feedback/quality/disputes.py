"""Items that people decided differently, those furthest apart first: what is worth a second look."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from apps.feedback.forms import FORMS
from apps.feedback.models import FLAG, Adjudication, Item
from apps.feedback.quality.decisions import Decision
from apps.runs.models import Run
from apps.runs.people import People


@dataclass(frozen=True)
class Dispute:
    """An item and how far its votes lie apart: the widest range that one rollout was given, 0 to 1; a flag against a value is 1."""

    item: int
    votes: Sequence[Decision]
    apart: float


def disputes(decisions: Sequence[Decision], people: People) -> list[Dispute]:
    """Items of two votes or more that differ, the widest apart first, then the most votes; known answers are no dispute."""
    votes: dict[int, list[Decision]] = defaultdict(list)
    for decision in decisions:
        if decision.item is not None and not decision.is_known:
            votes[decision.item].append(decision)
    found = [Dispute(item, own[::-1], apart(own, people)) for item, own in votes.items() if len(own) > 1]
    return sorted((dispute for dispute in found if dispute.apart), key=lambda one: (-one.apart, -len(one.votes), one.item))


def apart(votes: Sequence[Decision], people: People) -> float:
    """The widest range of values that one rollout was given; where some flagged and some did not, 1."""
    flags = sum(vote.form == FLAG for vote in votes)
    if 0 < flags < len(votes):
        return 1.0
    given: dict[int, list[float]] = defaultdict(list)
    for vote in votes:
        for rollout, value in FORMS[vote.form].values(vote.answer, vote.shown, people).items():
            given[rollout].append(value)
    return max((max(values) - min(values) for values in given.values()), default=0.0)


def open_disputes(run: Run, decisions: Sequence[Decision]) -> list[Dispute]:
    """Those that nobody has settled; one statement."""
    found = disputes(decisions, run.settings.people)
    settled = set(Adjudication.objects.filter(item__run=run).values_list("item", flat=True)) if found else set()
    return [dispute for dispute in found if dispute.item not in settled]


def items_of(disputed: Sequence[Dispute]) -> dict[int, Item]:
    return Item.objects.select_related("group__task").in_bulk([dispute.item for dispute in disputed])
