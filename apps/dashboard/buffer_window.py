"""A run's newest groups and the outcomes of their rollouts, for the buffer page's drawings."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property

from django.db.models import QuerySet

from apps.buffer.models import Experience, StepItem
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep

GROUPS = 250
ROLLOUTS = 2_000  # rollouts read, whatever the run's size


@dataclass(frozen=True)
class NewestUse:
    """The newest step that used an experience; `version` is the trainer's at that moment."""

    step: int
    version: int
    planned_at: datetime
    committed_at: datetime | None


@dataclass(frozen=True)
class ExperienceFields:
    """The fields of an experience that the page needs."""

    pk: int
    state: str
    reason: str
    reward: float
    weight_version: int
    created_at: datetime


@dataclass(frozen=True)
class RolloutOutcome:
    """The outcome of a rollout, ended or under way.

    `learned` is its experience, `taken` the step that used it, `cut` the operator that removed it
    and why.
    """

    group: Group
    state: str
    stop_reason: str
    tokens: int
    cut: tuple[str, str] | None
    learned: ExperienceFields | None
    newest_use: NewestUse | None

    @property
    def experience(self) -> ExperienceFields:
        """Return the experience of a rollout that has one, as all in `Window.admitted` have."""
        assert self.learned is not None
        return self.learned


@dataclass(frozen=True)
class Window:
    """The newest groups of a run; `is_whole` means that the run has no others."""

    run: Run
    groups: Sequence[Group]
    fates: Sequence[RolloutOutcome]
    is_whole: bool

    @cached_property
    def use_by_group(self) -> dict[int, NewestUse]:
        """Return, by group, the step that took its experiences."""
        return {fate.group.pk: fate.newest_use for fate in self.fates if fate.newest_use}

    @cached_property
    def ready(self) -> set[int]:
        """Return the groups with experiences that wait for the trainer."""
        ready = Experience.State.READY
        return {fate.group.pk for fate in self.admitted if fate.experience.state == ready}

    @cached_property
    def admitted(self) -> list[RolloutOutcome]:
        """Return the outcomes of rollouts that are in the buffer or were used by a step."""
        return [
            fate
            for fate in self.fates
            if fate.learned and fate.learned.state != Experience.State.DROPPED
        ]


def load_buffer_window(run: Run) -> Window:
    """Return the window of a run, in five queries over its newest groups."""
    group_limit = max(1, min(GROUPS, ROLLOUTS // run.settings.group_size))
    drawn_groups = run.groups.filter(draw_index__isnull=False).order_by("-draw_index")
    columns = (
        "state",
        "reason",
        "draw_index",
        "opened_version",
        "opened_at",
        "sampled_at",
        "judged_at",
        "closed_at",
    )
    newest = list(drawn_groups.only("pk", "run", *columns)[: group_limit + 1])
    groups = {group.pk: group for group in newest[:group_limit]}
    return Window(run, list(groups.values()), _fates(run, groups), len(newest) <= group_limit)


def _fates(run: Run, groups: dict[int, Group]) -> list[RolloutOutcome]:
    if not groups:
        return []
    first = min(group.draw_index for group in groups.values() if group.draw_index is not None)
    newest = Group.objects.filter(run=run, draw_index__gte=first).values(
        "pk"
    )  # as a subquery, not as hundreds of ids
    learned = _learned(newest)
    uses = _newest_uses(newest)
    return [
        RolloutOutcome(
            groups[row.group_id],
            row.state,
            row.stop_reason,
            row.completion_tokens,
            (row.cut__operator, row.cut__reason) if row.cut__operator else None,
            learned.get(row.pk),
            uses.get(learned[row.pk].pk) if row.pk in learned else None,
        )
        for row in _rollouts(newest)
        if row.group_id in groups
    ]


def _rollouts(groups: QuerySet) -> QuerySet:
    columns = (
        "pk",
        "group_id",
        "state",
        "stop_reason",
        "completion_tokens",
        "cut__operator",
        "cut__reason",
    )
    return (
        Rollout.objects.without_anchors().filter(group__in=groups).values_list(*columns, named=True)
    )


def _learned(groups: QuerySet) -> dict[int, ExperienceFields]:
    """Return the experiences by rollout."""
    rows = Experience.objects.usual().filter(group__in=groups)
    return {
        rollout: ExperienceFields(*values)
        for rollout, *values in rows.values_list(
            "rollout_id", *(column.name for column in fields(ExperienceFields))
        )
    }


def _newest_uses(groups: QuerySet) -> dict[int, NewestUse]:
    """Return the newest step of each experience, by experience."""
    items = StepItem.objects.filter(experience__group__in=groups)
    rows = list(items.order_by().values_list("experience_id", "step_id"))
    steps = TrainStep.objects.filter(pk__in={step for _, step in rows})
    uses = {
        pk: NewestUse(number, version, planned_at, committed_at)
        for pk, number, version, planned_at, committed_at in steps.values_list(
            "pk", "number", "version", "planned_at", "committed_at"
        )
    }
    return {
        experience: uses[step]
        for experience, step in sorted(rows, key=lambda row: uses[row[1]].step)
    }
