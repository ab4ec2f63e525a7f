"""Disputed items: those on which people disagreed, the widest disagreement first."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from apps.feedback.forms import FORMS
from apps.feedback.models import FLAG, Adjudication, Item, Rating
from apps.feedback.quality.decisions import Decision, decisions_about
from apps.runs.models import Run
from apps.runs.people import People


@dataclass(frozen=True)
class Dispute:
    """An item and its disagreement: the widest range of values of one rollout, from 0 to 1.

    A flag against a value is 1.
    """

    item: int
    votes: Sequence[Decision]
    apart: float


def list_disputes(decisions: Sequence[Decision], people: People) -> list[Dispute]:
    """Return items whose two or more votes differ, the widest range first, then the most votes.

    Items with known answers are not disputes.
    """
    votes: dict[int, list[Decision]] = defaultdict(list)
    for decision in decisions:
        if decision.item is not None and not decision.has_known_answer:
            votes[decision.item].append(decision)
    candidates = [
        Dispute(item, item_votes[::-1], widest_range(item_votes, people))
        for item, item_votes in votes.items()
        if len(item_votes) > 1
    ]
    return sorted(
        (dispute for dispute in candidates if dispute.apart),
        key=lambda dispute: (-dispute.apart, -len(dispute.votes), dispute.item),
    )


def widest_range(votes: Sequence[Decision], people: People) -> float:
    """Return the widest range of values that one rollout got; 1 if only some people flagged it."""
    flags = sum(vote.form == FLAG for vote in votes)
    if 0 < flags < len(votes):
        return 1.0
    values_by_rollout: dict[int, list[float]] = defaultdict(list)
    for vote in votes:
        for rollout, value in FORMS[vote.form].values(vote.answer, vote.shown, people).items():
            values_by_rollout[rollout].append(value)
    return max((max(values) - min(values) for values in values_by_rollout.values()), default=0.0)


def open_disputes(run: Run, decisions: Sequence[Decision]) -> list[Dispute]:
    """Return the disputes that nobody has settled; one statement."""
    disputes = list_disputes(decisions, run.settings.people)
    settled = (
        set(Adjudication.objects.filter(item__run=run).values_list("item", flat=True))
        if disputes
        else set()
    )
    return [dispute for dispute in disputes if dispute.item not in settled]


def disputes_of_each(runs: Sequence[Run], newest: int) -> dict[int, int]:
    """Return the number of unsettled disputes by run id, without runs that have none.

    Only the `newest` ratings of each run are read, so that no run is slow to count. Three
    statements at most, whatever the number of runs.
    """
    standing = Rating.objects.counting().filter(item__isnull=False).order_by("-pk")
    items = [standing.filter(run=run).values_list("item", flat=True)[:newest] for run in runs]
    votes = Counter(items[0].union(*items[1:], all=True) if items else ())
    several = {item for item, count in votes.items() if count > 1}
    adjudications = Adjudication.objects.filter(item__in=several)
    settled = set(adjudications.values_list("item", flat=True))
    decisions = decisions_about(several - settled)
    counts = {}
    for run in runs:
        if run.pk in decisions:
            disputes = list_disputes(decisions[run.pk], run.settings.people)
            counts[run.pk] = len(disputes)
    return {run: count for run, count in counts.items() if count}


def load_disputed_items(disputed: Sequence[Dispute]) -> dict[int, Item]:
    return Item.objects.select_related("group__task").in_bulk(
        [dispute.item for dispute in disputed]
    )
