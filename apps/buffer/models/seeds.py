"""Seeds: groups of one run that were copied into another before it began, each with the group that it was taken from."""

from django.db import models
from django.db.models.functions import Now

from apps.rollouts.models import Group
from apps.runs.models import Run


class Seed(models.Model):
    """That a group of a run was not sampled for it. Its rollouts are those of `of` under the same sample indexes."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="seeds", db_index=False)
    group = models.OneToOneField(Group, on_delete=models.CASCADE, related_name="seed")
    of = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="seeded", help_text="What was copied.")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "of"], name="a_group_seeds_a_run_once")]

    def __str__(self) -> str:
        return f"{self.group_id} of {self.of_id}"
