"""Seeds: groups copied from other runs before a run began, each with its source group."""

from django.db import models
from django.db.models.functions import Now

from apps.rollouts.models import Group
from apps.runs.models import Run


class Seed(models.Model):
    """A group of a run that was copied from another run instead of being sampled.

    Its rollouts are those of the group `of` with the same sample indexes.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="seeds", db_index=False)
    group = models.OneToOneField(Group, on_delete=models.CASCADE, related_name="seed")
    of = models.ForeignKey(
        Group, on_delete=models.PROTECT, related_name="seeded", help_text="ID of the copied row."
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "of"], name="a_group_seeds_a_run_once")
        ]

    def __str__(self) -> str:
        return f"{self.group_id} of {self.of_id}"
