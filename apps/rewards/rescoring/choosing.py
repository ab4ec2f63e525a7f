"""Choice of stored rollouts for a rescoring: whole groups, the newest first."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from pydantic import Field, ValidationError, model_validator

from apps.buffer.models import StepItem
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.algorithms.section import Number, Section
from apps.runs.config import ConfigError
from apps.runs.models import Run

MAX_ROLLOUTS = (
    100_000  # rollouts of one rescoring: what a comparison still sums up while a page is fetched
)
WHOLE = "filter"  # in place of a field's name: what is wrong with several fields together
JUDGED = (Group.State.WAITING, Group.State.JUDGED, *Group.CLOSED)


class Chosen(Section):
    """Filter of rollouts; every given field narrows the choice.

    A group is chosen when one of its rollouts fits, and judged whole.
    """

    from_step: int | None = Field(
        None, ge=0, lt=2**31, description="Used by this step or a later one."
    )
    to_step: int | None = Field(
        None, ge=0, lt=2**31, description="Used by this step or an earlier one."
    )
    domain: str = Field("", max_length=60, description="Tasks of this domain. If empty, all.")
    scorer: str = Field(
        "", max_length=60, description="Scored by this scorer, with a value from `low` to `high`."
    )
    low: Number | None = Field(None, description="Lowest value of that scorer.")
    high: Number | None = Field(None, description="Highest value of that scorer.")
    groups: tuple[int, ...] = Field(
        (), max_length=10_000, description="Only these groups, by number. If empty, any."
    )
    limit: int = Field(10_000, ge=1, le=MAX_ROLLOUTS, description="Maximum number of rollouts.")

    @model_validator(mode="after")
    def _check_ranges(self) -> "Chosen":
        first, last = self.from_step, self.to_step
        if first is not None and last is not None and first > last:
            raise ValueError(f"to_step {last} is before from_step {first}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"high {self.high:g} is less than low {self.low:g}")
        if not self.scorer and (self.low, self.high) != (None, None):
            raise ValueError("name the `scorer` whose values are from `low` to `high`")
        return self

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Chosen":
        """Validate a choice from outside. Raises ConfigError naming the fields."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise ConfigError(
                {
                    ".".join(map(str, e["loc"])) or WHOLE: e["msg"].removeprefix("Value error, ")
                    for e in error.errors()
                }
            ) from None

    @property
    def words(self) -> str:
        """Return the choice in words, for pages."""
        parts = []
        if (self.from_step, self.to_step) != (None, None):
            ends = [f"from {self.from_step}"] * (self.from_step is not None) + [
                f"to {self.to_step}"
            ] * (self.to_step is not None)
            parts.append(f"steps {' '.join(ends)}")
        if self.domain:
            parts.append(f"domain {self.domain}")
        if self.scorer:
            ends = [f"from {self.low:g}"] * (self.low is not None) + [f"to {self.high:g}"] * (
                self.high is not None
            )
            parts.append(" ".join(["judged by", self.scorer, *ends]))
        if self.groups:
            parts.append(f"{len(self.groups):,} selected groups")
        return ", ".join(parts) or "all updates"


def list_chosen_groups(run: Run, chosen: Chosen) -> list[tuple[int, int]]:
    """Return (group, its finished rollouts), oldest first.

    If `limit` does not allow all, the newest are taken.
    """
    finished = Q(rollouts__state=Rollout.State.FINISHED) & ~Q(
        rollouts__origin=Rollout.Origin.SYNTHETIC
    )
    candidates = _narrowed(
        Group.objects.filter(run=run, draw_index__isnull=False, state__in=JUDGED), chosen
    )
    groups_with_counts = candidates.annotate(finished=Count("rollouts", filter=finished)).filter(
        finished__gt=0
    )
    newest = []
    remaining = chosen.limit
    for group, count in groups_with_counts.order_by("-pk").values_list("pk", "finished")[
        : chosen.limit
    ]:
        if count > remaining:
            break
        newest.append((group, count))
        remaining -= count
    return newest[::-1]


def _narrowed(groups: QuerySet[Group], chosen: Chosen) -> QuerySet[Group]:
    bounds = {"step__number__gte": chosen.from_step, "step__number__lte": chosen.to_step}
    if steps := {name: value for name, value in bounds.items() if value is not None}:
        groups = groups.filter(
            Exists(StepItem.objects.filter(experience__group=OuterRef("pk"), **steps))
        )
    if chosen.groups:
        groups = groups.filter(pk__in=chosen.groups)
    if chosen.domain:
        groups = groups.filter(task__domain=chosen.domain)
    if chosen.scorer:
        ends = {"value__gte": chosen.low, "value__lte": chosen.high}
        values = {name: value for name, value in ends.items() if value is not None}
        judged = Reward.objects.filter(
            rollout__group=OuterRef("pk"), scorer=chosen.scorer, by=None, **values
        )
        groups = groups.filter(Exists(judged))
    return groups
