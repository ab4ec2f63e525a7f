"""Read a run's newest decisions once for all figures about them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from apps.feedback.answer_texts import reorder_answer
from apps.feedback.forms import Answer
from apps.feedback.models import ANSWERED, Item, Rating, Slot
from apps.runs.models import Run

NEWEST = 10_000  # decisions on which the figures are based


@dataclass(frozen=True)
class Decision:
    """A decision in force.

    `unit` holds the rollouts it is about, whatever the item and the order they were shown in.
    """

    rating: int
    rater: int
    name: str
    is_simulated: bool
    form: str
    answer: Answer
    shown: Sequence[int]
    item: int | None
    purpose: str
    expected: Answer | None
    seconds: float | None
    critique: str
    at: datetime
    is_claimed: bool = True

    @property
    def unit(self) -> tuple[int, ...]:
        return tuple(sorted(self.shown))

    @property
    def in_order(self) -> Answer:
        """Return the answer for the rollouts' own order; only a preference depends on the order."""
        return reorder_answer(self.form, self.answer, self.shown, self.unit)

    @property
    def is_known(self) -> bool:
        """Tell whether the right answer is known."""
        return self.purpose in ANSWERED


FIELDS = (
    "pk",
    "rater",
    "rater__username",
    "rater__is_simulated",
    "form",
    "answer",
    "shown",
    "rollout",
    "item",
    "item__purpose",
    "item__expected",
    "seconds",
    "critique",
    "at",
)
# Stars that fill an unclaimed slot give it no time of claiming.
CLAIMED = Exists(
    Slot.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), held_at__isnull=False)
)


def newest_decisions(run: Run, most: int = NEWEST) -> list[Decision]:
    """Return the run's decisions in force, newest first; one statement."""
    standing = Rating.objects.counting().filter(run=run).order_by("-pk")
    return [_decision(*row) for row in standing.values_list(*FIELDS, CLAIMED)[:most]]


def decisions_about(items: Iterable[int]) -> dict[int, list[Decision]]:
    """Return the decisions in force about these items by run, newest first; one statement."""
    standing = Rating.objects.counting().filter(item__in=items).order_by("-pk")
    found: dict[int, list[Decision]] = defaultdict(list)
    for run_id, *row in standing.values_list("run", *FIELDS, CLAIMED):
        found[run_id].append(_decision(*row))
    return found


def list_item_decisions(item: Item) -> list[Decision]:
    """Return the decisions in force about this item, oldest first; one statement."""
    standing = Rating.objects.counting().filter(item=item).order_by("pk")
    return [_decision(*row) for row in standing.values_list(*FIELDS, CLAIMED)]


def _decision(
    pk,
    rater,
    name,
    simulated,
    form,
    answer,
    shown,
    rollout,
    item,
    purpose,
    expected,
    seconds,
    critique,
    at,
    claimed,
) -> Decision:
    seen = list(shown) or [rollout]
    return Decision(
        pk,
        rater,
        name,
        simulated,
        form,
        answer,
        seen,
        item,
        purpose or "",
        expected,
        seconds,
        critique,
        at,
        claimed,
    )
