"""A run's newest decisions, read once for all figures about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.feedback.forms import Answer
from apps.feedback.models import KNOWN, Item, Rating
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


def newest_decisions(run: Run, most: int = NEWEST) -> list[Decision]:
    """What people stand by, the newest first; one statement."""
    return [_decision(*row) for row in Rating.objects.counting().filter(run=run).order_by("-pk").values_list(*FIELDS)[:most]]


def decisions_of(item: Item) -> list[Decision]:
    """What people stand by about this item, the first first; one statement."""
    return [_decision(*row) for row in Rating.objects.counting().filter(item=item).order_by("pk").values_list(*FIELDS)]


def _decision(
    pk, rater, name, simulated, form, answer, shown, rollout, item, purpose, expected, seconds, critique, at
) -> Decision:
    seen = list(shown) or [rollout]
    return Decision(
        pk, rater, name, simulated, form, answer, seen, item, purpose or "", expected, seconds, critique, at
    )
