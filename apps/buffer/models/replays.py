"""Replays: the recorded groups and experts' answers that each step of a replaying run takes.

The order is that of the recorded run.
"""

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
from apps.rollouts.payload import pack, unpack_payload
from apps.runs.models import Run, TrainStep

BATCH = 1_000  # rows held and written together
Row = TypeVar("Row")


class Recorded(models.Model):
    """A row of a recorded batch: a copied group, or one expert's answer, that a step takes.

    `recorded_step` is the step of the recorded run that took it. `step` is assigned after all
    groups are refined. Updates with nothing left to learn from are then skipped, and the others are
    numbered without gaps.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="recorded")
    recorded_step = models.PositiveIntegerField()
    step = models.PositiveIntegerField(
        null=True,
        help_text="Step of this run; NULL if not numbered or if nothing is left to replay.",
    )
    place = models.PositiveIntegerField(help_text="Order within the step.")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="recorded")
    expert = models.ForeignKey(
        Rollout, null=True, on_delete=models.CASCADE, related_name="recorded"
    )
    of = models.ForeignKey(
        Group, on_delete=models.PROTECT, related_name="replays", help_text="ID of the copied row."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "recorded_step", "place"], name="one_recorded_row_per_place"
            )
        ]
        indexes = [models.Index(fields=["run", "step"], name="recorded_rows_of_a_step")]

    def __str__(self) -> str:
        return f"{self.run_id} step {self.step or '–'}: {self.group_id}"


def is_copied(run: Run) -> bool:
    """Tell whether the recorded data is there; it is copied in one transaction."""
    return run.recorded.exists()


def still_refined(run: Run) -> int:
    """Return how many of the copied groups still wait for the refiner."""
    return run.groups.filter(state__in=Group.OPEN).count()


def is_numbered(run: Run) -> bool:
    """Tell whether the steps that have something to learn from have been numbered."""
    return run.recorded.filter(step__isnull=False).exists()


@unit_of_work
def number_steps(run: Run, fence: int) -> int:
    """Number the steps that have something to learn from, and return how many there are.

    The copied data gets weight versions of this run. A rollout that version u of the recorded run
    sampled counts as sampled by the version of this run that has the same number of steps behind
    it. So a rollout is never newer than the step that learns from it, and never more stale than
    it was. Call this once, after all groups are refined. Raises StaleFence.
    """
    if not is_numbered(run):
        lock_ids(run.groups.all())
        lock_ids(Rollout.objects.filter(run=run))
    with run.fenced(fence) as locked:
        if is_numbered(locked) or not locked.planned_steps:
            return locked.planned_steps
        kept_steps = sorted(
            Experience.objects.usual()
            .filter(run=locked, state=Experience.State.READY)
            .values_list("group__recorded__recorded_step", flat=True)
            .distinct()
        )
        numbers = {recorded: number for number, recorded in enumerate(kept_steps, start=1)}
        rows = list(locked.recorded.filter(recorded_step__in=kept_steps))
        for row in rows:
            row.step = numbers[row.recorded_step]
        Recorded.objects.bulk_update(rows, ["step"], batch_size=2_000)
        _renumber_versions(locked, versions_here(locked, kept_steps))
        Run.objects.filter(pk=locked.pk).update(
            planned_steps=len(kept_steps),
            config={**locked.config, "steps": max(1, len(kept_steps))},
        )
        locked.topic.record(
            "replay_ready", steps=len(kept_steps), left_out=locked.planned_steps - len(kept_steps)
        )
    run.refresh_from_db()
    return len(kept_steps)


@retrying
def plan_recorded(
    run: Run, fence: int, crediting: Crediting | None = None, treating: Treating | None = None
) -> TrainStep | None:
    """Plan the batch of a replaying run's next step; None when all steps are done.

    The batch is what is left of the recorded one, in its order. A step that was planned before (by
    a trainer that died) is returned unchanged. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        planned = locked.steps.filter(state=TrainStep.State.PLANNED).first()
        if planned or locked.step >= locked.planned_steps:
            return planned
        rows = locked.recorded.filter(step=locked.step + 1)
        groups = list(rows.filter(expert=None).values_list("group_id", flat=True))
        experts = (
            rows.exclude(expert=None)
            .order_by("place")
            .values_list("expert__experiences", flat=True)
        )
        return record_batch(locked, fence, groups, crediting, list(experts), treating)


def versions_here(run: Run, kept_steps: list[int]) -> dict[int, int]:
    """Map each version of the recorded run to this run's version with as many kept steps."""
    replay = run.settings.replay
    assert replay is not None  # only runs with recorded rollouts get here
    source = Run.objects.get(project=run.project_id, slug=replay.run)
    versions = source.weight_versions.values_list("version", "step")
    return {
        version: bisect_right(kept_steps, step) // run.settings.sync_interval
        for version, step in versions
    }


def _renumber_versions(run: Run, new_versions: dict[int, int]) -> None:
    changed = {old: number for old, number in new_versions.items() if old != number}
    if not changed:
        return
    with connection.cursor() as cursor:
        for statement in RENUMBER:
            cursor.execute(statement, [list(changed), list(changed.values()), run.pk])
    payloads = RolloutPayload.objects.filter(rollout__run=run).order_by("pk")
    for some in batched(payloads.iterator(BATCH), BATCH):
        for payload in some:
            payload.data = _renumbered(payload.data, new_versions)
        RolloutPayload.objects.bulk_update(some, ["data"])


def _renumbered(data: bytes | memoryview, new_versions: dict[int, int]) -> bytes:
    tokens = unpack_payload(data)
    return pack(
        replace(
            tokens,
            segments=tuple(
                (start, new_versions.get(version, version)) for start, version in tokens.segments
            ),
        )
    )


RENUMBER = (
    (
        "UPDATE buffer_experience e SET weight_version = n.here FROM unnest(%s::int[], %s::int[])"
        " n(there, here) WHERE e.run_id = %s AND e.weight_version = n.there AND e.kind = 'usual'"
    ),
    (
        "UPDATE rollouts_rollout r SET first_version = n.here FROM unnest(%s::int[], %s::int[])"
        " n(there, here) WHERE r.run_id = %s AND r.first_version = n.there"
    ),
    (
        "UPDATE rollouts_rollout r SET last_version = n.here FROM unnest(%s::int[], %s::int[])"
        " n(there, here) WHERE r.run_id = %s AND r.last_version = n.there"
    ),
    (
        "UPDATE rollouts_group g SET opened_version = n.here FROM unnest(%s::int[], %s::int[])"
        " n(there, here) WHERE g.run_id = %s AND g.opened_version = n.there"
    ),
)


def batched(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    stream = iter(rows)
    while some := list(islice(stream, size)):
        yield some
