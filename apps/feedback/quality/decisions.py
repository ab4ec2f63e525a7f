"""A run's newest decisions, read once for all figures about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from apps.feedback.forms import Answer
from apps.feedback.models import KNOWN, Item, Rating, Slot
from apps.feedback.saying import in_order
from apps.runs.models import Run

NEWEST = 10_000  # decisions that the figures are taken from


@dataclass(frozen=True)
class Decision:
    """One decision that stands. `unit`: the rollouts it is about, whatever the item and the order they were shown in."""

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
        """The answer as if the rollouts had been shown in their own order; only a preference depends on that."""
        return in_order(self.form, self.answer, self.shown, self.unit)

    @property
    def is_known(self) -> bool:
        """Its right answer is known."""
        return self.purpose in KNOWN


FIELDS = (
    "pk", "rater", "rater__username", "rater__is_simulated", "form", "answer", "shown", "rollout", "item", "item__purpose",
    "item__expected", "seconds", "critique", "at",
)  # fmt: skip
# Stars that fill the slot of an item without a claim leave it with no time at which it was taken.
CLAIMED = Exists(
    Slot.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), held_at__isnull=False)
)


def newest_decisions(run: Run, most: int = NEWEST) -> list[Decision]:
    """What people stand by, the newest first; one statement."""
    standing = Rating.objects.counting().filter(run=run).order_by("-pk")
    return [_decision(*row) for row in standing.values_list(*FIELDS, CLAIMED)[:most]]


def decisions_of(item: Item) -> list[Decision]:
    """What people stand by about this item, the first first; one statement."""
    standing = Rating.objects.counting().filter(item=item).order_by("pk")
    return [_decision(*row) for row in standing.values_list(*FIELDS, CLAIMED)]


def _decision(
    pk, rater, name, simulated, form, answer, shown, rollout, item, purpose, expected, seconds, critique, at, claimed
) -> Decision:
    seen = list(shown) or [rollout]
    return Decision(
        pk, rater, name, simulated, form, answer, seen, item, purpose or "", expected, seconds, critique, at, claimed
    )
