"""Read a run's newest decisions once for all metrics about them."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Exists, F, FloatField, Func, OuterRef, TextField
from django.db.models.functions import Cast

from apps.feedback.answer_texts import reorder_answer
from apps.feedback.forms import Answer
from apps.feedback.models import ANSWERED, Item, Rating, Slot
from apps.runs.models import Run

NEWEST = 10_000  # decisions on which the metrics are based


@dataclass(frozen=True)
class Decision:
    """A decision in force.

    `unit` holds the rollouts it is about, whatever the item and the order they were shown in. `at`
    is in seconds since 1970. Decisions with the same answer share it: nothing may change it.
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
    at: float
    is_claimed: bool = True
    is_late: bool = False

    @property
    def unit(self) -> tuple[int, ...]:
        return tuple(sorted(self.shown))

    @property
    def in_order(self) -> Answer:
        """Return the answer for the rollouts' own order; only a preference depends on the order."""
        return reorder_answer(self.form, self.answer, self.shown, self.unit)

    @property
    def has_known_answer(self) -> bool:
        """Tell whether the item has a known right answer."""
        return self.purpose in ANSWERED


FIELDS = (
    "pk",
    "rater",
    "rater__username",
    "rater__is_simulated",
    "form",
    "shown",
    "rollout",
    "item",
    "item__purpose",
    "seconds",
    "critique",
    "is_late",
)


class EpochSeconds(Func):
    """The seconds since 1970 of a time, which are read much faster than a time with its zone."""

    template = "extract(epoch FROM %(expressions)s)::float8"
    output_field = FloatField()


# People give few different answers: as texts, each of them is parsed once.
COLUMNS = (
    *FIELDS,
    EpochSeconds(F("at")),
    Cast("answer", TextField()),
    Cast("item__expected", TextField()),
)


def newest_decisions(run: Run, limit: int = NEWEST, claims: bool = False) -> list[Decision]:
    """Return the run's decisions in force, newest first; one statement.

    Without `claims`, whether an item was claimed is not looked up, and all count as claimed.
    """
    standing = Rating.objects.counting().filter(run=run).order_by("-pk")
    columns = (*COLUMNS, _is_claimed(run)) if claims else COLUMNS
    parse = _answer_parser()
    return [_decision(parse, *row) for row in standing.values_list(*columns)[:limit]]


def _is_claimed(run: Run) -> Exists:
    """Tell whether the rater claimed a slot; stars that fill an unclaimed one give it no time.

    PostgreSQL may read all slots of the run at once for it, but not those of the database.
    """
    slots = Slot.objects.filter(run=run, held_at__isnull=False)
    return Exists(slots.filter(item=OuterRef("item"), rater=OuterRef("rater")))


def decisions_about(items: Iterable[int]) -> dict[int, list[Decision]]:
    """Return the decisions in force about these items by run, newest first; one statement."""
    standing = Rating.objects.counting().filter(item__in=items).order_by("-pk")
    decisions_by_run: dict[int, list[Decision]] = defaultdict(list)
    parse = _answer_parser()
    for run_id, *row in standing.values_list("run", *COLUMNS):
        decisions_by_run[run_id].append(_decision(parse, *row))
    return decisions_by_run


def list_item_decisions(item: Item) -> list[Decision]:
    """Return the decisions in force about this item, oldest first; one statement."""
    standing = Rating.objects.counting().filter(item=item).order_by("pk")
    parse = _answer_parser()
    return [_decision(parse, *row) for row in standing.values_list(*COLUMNS)]


def _answer_parser() -> Callable[[str | None], Answer | None]:
    """Return a function that parses each different text once."""
    parsed: dict[str | None, Answer | None] = {None: None}

    def parse(text: str | None) -> Answer | None:
        if text not in parsed:
            assert text is not None  # None is known
            parsed[text] = json.loads(text)
        return parsed[text]

    return parse


def _decision(
    parse: Callable[[str | None], Answer | None],
    pk,
    rater,
    name,
    simulated,
    form,
    shown,
    rollout,
    item,
    purpose,
    seconds,
    critique,
    is_late,
    at,
    answer,
    expected,
    claimed=True,
) -> Decision:
    rollouts = shown or [rollout]
    parsed = parse(answer)
    assert parsed is not None  # every rating has an answer
    return Decision(
        pk,
        rater,
        name,
        simulated,
        form,
        parsed,
        rollouts,
        item,
        purpose or "",
        parse(expected),
        seconds,
        critique,
        at,
        claimed,
        is_late,
    )
