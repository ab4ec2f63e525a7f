"""A run's newest groups with what became of each of their rollouts: all that the drawings of its buffer page are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import QuerySet

from apps.buffer.models import Experience, StepItem
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

GROUPS, ROLLOUTS = 500, 4_000  # looked at, whatever the run's size


@dataclass(frozen=True)
class Taken:
    """The newest update that an experience was planned into. `version`: the trainer's at that moment."""

    step: int
    version: int
    planned_at: datetime
    committed_at: datetime | None


@dataclass(frozen=True)
class Fate:
    """A rollout that ended or is under way. `learned`: its experience; `taken`: by which update; `cut`: the operator and why."""

    group: Group
    state: str
    stop_reason: str
    tokens: int
    cut: tuple[str, str] | None
    learned: Experience | None
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
    """Four queries over the newest groups, which the index of draws finds."""
    most = max(1, min(GROUPS, ROLLOUTS // run.settings.group_size))
    newest = run.groups.filter(draw_index__isnull=False).order_by("-draw_index")
    fields = ("state", "reason", "opened_version", "opened_at", "sampled_at", "judged_at", "closed_at")
    found = list(newest.only("pk", "run", *fields)[: most + 1])
    groups = {group.pk: group for group in found[:most]}
    return Window(run, list(groups.values()), _fates(groups), len(found) <= most)


def _fates(groups: dict[int, Group]) -> list[Fate]:
    learned = {one.rollout_id: one for one in Experience.objects.usual().filter(group__in=groups)}
    taken = {pk: Taken(*rest) for pk, *rest in _takings(groups)}
    return [
        Fate(
            groups[row.group_id], row.state, row.stop_reason, row.completion_tokens,
            (row.cut__operator, row.cut__reason) if row.cut__operator else None,
            learned.get(row.pk), taken.get(learned[row.pk].pk) if row.pk in learned else None,
        )
        for row in _rollouts(groups)
    ]  # fmt: skip


def _rollouts(groups: dict[int, Group]) -> QuerySet:
    columns = ("pk", "group_id", "state", "stop_reason", "completion_tokens", "cut__operator", "cut__reason")
    return Rollout.objects.without_anchors().filter(group__in=groups).values_list(*columns, named=True)


def _takings(groups: dict[int, Group]) -> QuerySet:
    """In the order of the updates, so that the newest is what stays."""
    items = StepItem.objects.filter(experience__group__in=groups).order_by("step__number")
    return items.values_list("experience", "step__number", "step__version", "step__planned_at", "step__committed_at")
