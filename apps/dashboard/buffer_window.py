"""A run's newest groups with what became of each of their rollouts: all that the drawings of its buffer page are made of."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property

from django.db.models import QuerySet

from apps.buffer.models import Experience, StepItem
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep

GROUPS, ROLLOUTS = 250, 2_000  # looked at, whatever the run's size


@dataclass(frozen=True)
class Taken:
    """The newest update that an experience was planned into. `version`: the trainer's at that moment."""

    step: int
    version: int
    planned_at: datetime
    committed_at: datetime | None


@dataclass(frozen=True)
class Learned:
    """What stands of an experience in the buffer."""

    pk: int
    state: str
    reason: str
    reward: float
    weight_version: int
    created_at: datetime


@dataclass(frozen=True)
class Fate:
    """A rollout that ended or is under way. `learned`: its experience; `taken`: by which update; `cut`: the operator and why."""

    group: Group
    state: str
    stop_reason: str
    tokens: int
    cut: tuple[str, str] | None
    learned: Learned | None
    taken: Taken | None


@dataclass(frozen=True)
class Window:
    """`is_whole`: the run has drawn no other groups."""

    run: Run
    groups: Sequence[Group]
    fates: Sequence[Fate]
    is_whole: bool

    @cached_property
    def taken(self) -> dict[int, Taken]:
        """By group: the update that took its experiences."""
        return {fate.group.pk: fate.taken for fate in self.fates if fate.taken}

    @cached_property
    def ready(self) -> set[int]:
        """Groups with something that waits for the trainer."""
        return {fate.group.pk for fate in self.kept if fate.learned.state == Experience.State.READY}

    @cached_property
    def kept(self) -> list[Fate]:
        """What was admitted and is in the buffer, or was taken out of it by an update."""
        return [fate for fate in self.fates if fate.learned and fate.learned.state != Experience.State.DROPPED]


def window_of(run: Run) -> Window:
    """Five queries over the newest groups, which the index of draws finds."""
    most = max(1, min(GROUPS, ROLLOUTS // run.settings.group_size))
    drawn = run.groups.filter(draw_index__isnull=False).order_by("-draw_index")
    columns = ("state", "reason", "draw_index", "opened_version", "opened_at", "sampled_at", "judged_at", "closed_at")
    found = list(drawn.only("pk", "run", *columns)[: most + 1])
    groups = {group.pk: group for group in found[:most]}
    return Window(run, list(groups.values()), _fates(run, groups), len(found) <= most)


def _fates(run: Run, groups: dict[int, Group]) -> list[Fate]:
    if not groups:
        return []
    first = min(group.draw_index for group in groups.values())
    newest = Group.objects.filter(run=run, draw_index__gte=first).values("pk")  # named so, not as hundreds of ids
    learned, taken = _learned(newest), _taken(newest)
    return [
        Fate(
            groups[row.group_id], row.state, row.stop_reason, row.completion_tokens,
            (row.cut__operator, row.cut__reason) if row.cut__operator else None,
            learned.get(row.pk), taken.get(learned[row.pk].pk) if row.pk in learned else None,
        )
        for row in _rollouts(newest) if row.group_id in groups
    ]  # fmt: skip


def _rollouts(groups: QuerySet) -> QuerySet:
    columns = ("pk", "group_id", "state", "stop_reason", "completion_tokens", "cut__operator", "cut__reason")
    return Rollout.objects.without_anchors().filter(group__in=groups).values_list(*columns, named=True)


def _learned(groups: QuerySet) -> dict[int, Learned]:
    """By rollout."""
    rows = Experience.objects.usual().filter(group__in=groups)
    return {rollout: Learned(*rest) for rollout, *rest in rows.values_list("rollout_id", *(one.name for one in fields(Learned)))}


def _taken(groups: QuerySet) -> dict[int, Taken]:
    """By experience, in the order of the updates, so that the newest is what stays."""
    items = StepItem.objects.filter(experience__group__in=groups)
    rows = list(items.order_by().values_list("experience_id", "step_id"))
    steps = TrainStep.objects.filter(pk__in={step for _, step in rows})
    told = {pk: Taken(*rest) for pk, *rest in steps.values_list("pk", "number", "version", "planned_at", "committed_at")}
    return {experience: told[step] for experience, step in sorted(rows, key=lambda row: told[row[1]].step)}
