"""Replays: which recorded groups and experts' answers each update of a replaying run takes, in the recorded order."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from django.db import connection, models

from apps.accounts.locking import lock_ids, retrying, unit_of_work
from apps.buffer.models.experiences import Experience
from apps.buffer.models.steps import Crediting, Treating, record_batch
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import pack, unpack
from apps.runs.models import Run, TrainStep

BATCH = 1_000  # rows held and written together
Row = TypeVar("Row")


class Recorded(models.Model):
    """That an update of a replaying run takes this group, or this one expert's answer, copied from the recorded run.

    `recorded_step` is the update that took it there. `step` is given once everything is refined: updates that have
    nothing left to learn from are not made, and the others count on without a gap.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="recorded")
    recorded_step = models.PositiveIntegerField()
    step = models.PositiveIntegerField(null=True, help_text="The update of this run; NULL: not numbered, or nothing left.")
    place = models.PositiveIntegerField(help_text="The order within the update.")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="recorded")
    expert = models.ForeignKey(Rollout, null=True, on_delete=models.CASCADE, related_name="recorded")
    of = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="replays", help_text="What was copied.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "recorded_step", "place"], name="one_recorded_row_per_place")]
        indexes = [models.Index(fields=["run", "step"], name="recorded_rows_of_a_step")]

    def __str__(self) -> str:
        return f"{self.run_id} step {self.step or '–'}: {self.group_id}"


def is_copied(run: Run) -> bool:
    """Whether the recorded data is there: it comes in one transaction."""
    return run.recorded.exists()


def still_refined(run: Run) -> int:
    """How many of the copied groups the refiner has not looked at yet."""
    return run.groups.filter(state__in=Group.OPEN).count()


def is_numbered(run: Run) -> bool:
    """Whether the updates that have something left have got their numbers."""
    return run.recorded.filter(step__isnull=False).exists()


@unit_of_work
def number_steps(run: Run, fence: int) -> int:
    """Give the updates that have something left their numbers, and the data the versions of this run; how many updates.

    A rollout that was sampled by the recorded run's version u counts as sampled by this run's version after as many
    updates as u had behind it: so it is never newer than what learns from it, and at most as stale as it was.
    Once only; call it when all groups are refined. Raises StaleFence.
    """
    if not is_numbered(run):
        lock_ids(run.groups.all())
        lock_ids(Rollout.objects.filter(run=run))
    with run.fenced(fence) as locked:
        if is_numbered(locked) or not locked.planned_steps:
            return locked.planned_steps
        kept = sorted(
            Experience.objects.usual().filter(run=locked, state=Experience.State.READY)
            .values_list("group__recorded__recorded_step", flat=True).distinct()
        )  # fmt: skip
        numbers = {recorded: number for number, recorded in enumerate(kept, start=1)}
        rows = list(locked.recorded.filter(recorded_step__in=kept))
        for row in rows:
            row.step = numbers[row.recorded_step]
        Recorded.objects.bulk_update(rows, ["step"], batch_size=2_000)
        _renumber_versions(locked, versions_here(locked, kept))
        Run.objects.filter(pk=locked.pk).update(planned_steps=len(kept), config={**locked.config, "steps": max(1, len(kept))})
        locked.topic.record("replay_ready", steps=len(kept), left_out=locked.planned_steps - len(kept))
    run.refresh_from_db()
    return len(kept)


@retrying
def plan_recorded(run: Run, fence: int, crediting: Crediting | None = None, treating: Treating | None = None) -> TrainStep | None:
    """Fix the batch of a replaying run's next update: what is left of the recorded one, in its order; None when all are made.

    A step that was planned before (by a trainer that died) is returned as it stands. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        planned = locked.steps.filter(state=TrainStep.State.PLANNED).first()
        if planned or locked.step >= locked.planned_steps:
            return planned
        rows = locked.recorded.filter(step=locked.step + 1)
        groups = list(rows.filter(expert=None).values_list("group_id", flat=True))
        experts = rows.exclude(expert=None).order_by("place").values_list("expert__experiences", flat=True)
        return record_batch(locked, fence, groups, crediting, list(experts), treating)


def versions_here(run: Run, kept: list[int]) -> dict[int, int]:
    """{version of the recorded run: version of this run that has as many of the `kept` updates behind it}."""
    source = Run.objects.get(project=run.project_id, slug=run.settings.replay.run)
    versions = source.weight_versions.values_list("version", "step")
    return {version: bisect_right(kept, step) // run.settings.sync_interval for version, step in versions}


def _renumber_versions(run: Run, here: dict[int, int]) -> None:
    changed = {there: number for there, number in here.items() if there != number}
    if not changed:
        return
    with connection.cursor() as cursor:
        for statement in RENUMBER:
            cursor.execute(statement, [list(changed), list(changed.values()), run.pk])
    payloads = RolloutPayload.objects.filter(rollout__run=run).order_by("pk")
    for some in batched(payloads.iterator(BATCH), BATCH):
        for payload in some:
            payload.data = _renumbered(payload.data, here)
        RolloutPayload.objects.bulk_update(some, ["data"])


def _renumbered(data: bytes, here: dict[int, int]) -> bytes:
    tokens = unpack(data)
    return pack(replace(tokens, segments=tuple((start, here.get(version, version)) for start, version in tokens.segments)))


RENUMBER = (
    "UPDATE buffer_experience e SET weight_version = n.here FROM unnest(%s::int[], %s::int[]) n(there, here) "
    "WHERE e.run_id = %s AND e.weight_version = n.there AND e.kind = 'usual'",
    "UPDATE rollouts_rollout r SET first_version = n.here FROM unnest(%s::int[], %s::int[]) n(there, here) "
    "WHERE r.run_id = %s AND r.first_version = n.there",
    "UPDATE rollouts_rollout r SET last_version = n.here FROM unnest(%s::int[], %s::int[]) n(there, here) "
    "WHERE r.run_id = %s AND r.last_version = n.there",
    "UPDATE rollouts_group g SET opened_version = n.here FROM unnest(%s::int[], %s::int[]) n(there, here) "
    "WHERE g.run_id = %s AND g.opened_version = n.there",
)


def batched(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    stream = iter(rows)
    while some := list(islice(stream, size)):
        yield some
