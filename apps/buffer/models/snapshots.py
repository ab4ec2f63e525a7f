"""Snapshots: the frozen, ordered lessons of a supervised or preference run, by step.

The lessons belong to apps.feedback, which this app may not import. Here they are ids, with a digest
of their text.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

from django.db import models, transaction

from apps.accounts.locking import retrying
from apps.runs.models import Run, TrainStep
from apps.tasksets.shuffled_draws import draw_position

BATCH = 2_000  # items written together


class Snapshot(models.Model):
    """The lessons that one run learns from, fixed when the run begins."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="snapshot")
    source = models.CharField(max_length=14, help_text="demonstrations, preferences or thumbs.")
    size = models.PositiveIntegerField(default=0)
    digest = models.CharField(
        max_length=64, help_text="SHA-256 over the lessons' IDs and digests, in order."
    )
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.size} {self.source} of {self.run_id}"

    @classmethod
    @transaction.atomic
    def freeze(cls, run: Run, source: str, lessons: Iterable[tuple[int, str]]) -> "Snapshot":
        """Create the run's snapshot from these (id, digest) pairs, in their order.

        An existing snapshot is returned unchanged. Raises ValueError when there is nothing to learn
        from.
        """
        snapshot, is_new = cls.objects.get_or_create(run=run, defaults={"source": source})
        if not is_new:
            return snapshot
        digest = hashlib.sha256()
        size = 0
        for batch in _batches(lessons):
            for pk, words in batch:
                digest.update(_digest_line(pk, words))
            SnapshotItem.objects.bulk_create(
                SnapshotItem(snapshot=snapshot, position=n, lesson=pk)
                for n, (pk, _) in enumerate(batch, start=size)
            )
            size += len(batch)
        if not size:
            raise ValueError(
                f"there were no {source} to train on when the run started: import some or change "
                "the filter under `snapshot`, then create the run again"
            )
        snapshot.size, snapshot.digest = size, digest.hexdigest()
        snapshot.save(update_fields=["size", "digest"])
        return snapshot

    @staticmethod
    def digest_of(lessons: Iterable[tuple[int, str]]) -> str:
        """Return the digest that a snapshot of these (id, digest) pairs would have."""
        digest = hashlib.sha256()
        for pk, words in lessons:
            digest.update(_digest_line(pk, words))
        return digest.hexdigest()


class SnapshotItem(models.Model):
    """The position of one lesson in a snapshot."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    lesson = models.BigIntegerField(help_text="ID of the lesson in the snapshot's source.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "position"], name="one_lesson_per_place"),
            models.UniqueConstraint(fields=["snapshot", "lesson"], name="one_place_per_lesson"),
        ]

    def __str__(self) -> str:
        return f"{self.snapshot_id}[{self.position}]"


class StepLesson(models.Model):
    """The position of a lesson in a step's batch, recorded before training and never changed.

    A batch that is larger than its snapshot, or reaches into the next epoch, may hold a lesson
    twice.
    """

    step = models.ForeignKey(TrainStep, on_delete=models.CASCADE, related_name="lessons")
    item = models.ForeignKey(SnapshotItem, on_delete=models.CASCADE, related_name="step_lessons")
    position = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "position"], name="one_lesson_per_position")
        ]

    def __str__(self) -> str:
        return f"{self.step_id}[{self.position}]"


@retrying
def plan_lessons(run: Run, fence: int) -> TrainStep | None:
    """Plan the batch of the run's next step; None when the plan is done.

    The batch is the next `snapshot.rows` lessons of a seeded shuffle per epoch. A step that was
    planned before (by a trainer that died) is returned unchanged. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        planned = locked.steps.filter(state=TrainStep.State.PLANNED).first()
        if planned or locked.step >= locked.planned_steps:
            return planned
        plan = locked.settings
        snapshot = locked.snapshot
        step = TrainStep.plan(locked, fence)
        places = [
            draw_position(draw, snapshot.size, plan.seed)
            for draw in _draws(step.number, plan.usual_rows_per_step)
        ]
        items = dict(snapshot.items.filter(position__in=places).values_list("position", "pk"))
        StepLesson.objects.bulk_create(
            StepLesson(step=step, item_id=items[place], position=n)
            for n, place in enumerate(places)
        )
        return step


def list_lessons(step: TrainStep) -> list[int]:
    """Return the ids of the step's lessons in their recorded order."""
    return list(step.lessons.order_by("position").values_list("item__lesson", flat=True))


def _digest_line(pk: int, words: str) -> bytes:
    return f"{pk}:{words}\n".encode()


def _draws(number: int, rows: int) -> range:
    return range((number - 1) * rows, number * rows)


def _batches(lessons: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    stream = iter(lessons)
    while batch := list(islice(stream, BATCH)):
        yield batch
