"""Difficulty scales of tasksets: numbers by which tasks are ordered for sampling."""

from collections.abc import Sequence

from django.db import models
from django.db.models.functions import Now

from apps.tasksets.models.tasksets import Task, Taskset

META = "the tasks' meta"
DOMAIN = "the tasks' domains"
OF_THE_TASKS = (META, DOMAIN)  # sources of scales that nobody's tries were needed for


class DifficultyScale(models.Model):
    """Difficulty scale: a number for each task of a set, which orders them."""

    taskset = models.ForeignKey(Taskset, on_delete=models.CASCADE, related_name="scales")
    name = models.CharField(max_length=60)
    source = models.CharField(max_length=200, help_text="Source of the values.")
    ready = models.BooleanField(
        default=True,
        help_text="Every task has a value and a place. False while values are being estimated.",
    )
    bands = models.JSONField(
        default=dict,
        help_text="For a scale of named levels: {name: [first place, place after the last]}.",
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["taskset", "name"], name="one_scale_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.taskset_id}"

    def at(self, places: Sequence[int]) -> list["Task"]:
        """Return the tasks at these places, in this order; place 0 has the lowest value."""
        rows = self.difficulties.filter(place__in=places).select_related("task")
        tasks_by_place = {row.place: row.task for row in rows}
        return [tasks_by_place[place] for place in places]

    def places(self, tasks: models.QuerySet) -> frozenset[int]:
        """Return the places of these tasks on the scale."""
        places = self.difficulties.filter(task__in=tasks).values_list("place", flat=True)
        return frozenset(place for place in places if place is not None)

    @property
    def is_estimated(self) -> bool:
        """Tell whether the numbers are a policy's measured failure rates, not data of the tasks."""
        return self.source not in OF_THE_TASKS

    def up_to(self, value: float) -> int:
        """Return how many tasks have this value or less."""
        last = (
            self.difficulties.filter(value__lte=value)
            .order_by("-value", "-place")
            .values_list("place", flat=True)
            .first()
        )
        return 0 if last is None else last + 1


class TaskDifficulty(models.Model):
    """A task's value on a scale, and its place among all."""

    scale = models.ForeignKey(
        DifficultyScale, on_delete=models.CASCADE, related_name="difficulties", db_index=False
    )
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    value = models.FloatField()
    place = models.PositiveIntegerField(null=True, help_text="NULL until the scale is ready.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scale", "place"], name="one_task_per_place"),
            models.UniqueConstraint(fields=["scale", "task"], name="one_place_per_task"),
        ]
        indexes = [
            models.Index(fields=["scale", "value", "place"], name="places_by_value")
        ]  # DifficultyScale.up_to

    def __str__(self) -> str:
        return f"{self.task_id} at {self.place}"
