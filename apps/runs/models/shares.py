"""Tasksets of a run that samples from several, and the share of each."""

from django.db import models
from django.db.models import Q

from apps.runs.models.run import Run
from apps.tasksets.models import Taskset


class TasksetShare(models.Model):
    """One taskset of a run that samples from several, and its share.

    Written with the run, and never changed.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="shares", db_index=False)
    taskset = models.ForeignKey(Taskset, on_delete=models.PROTECT, related_name="shares")
    share = models.PositiveSmallIntegerField(help_text="Share of the sampled tasks.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "taskset"], name="one_share_per_taskset_of_a_run"
            ),
            models.CheckConstraint(condition=Q(share__gt=0), name="a_shared_taskset_is_drawn_from"),
        ]

    def __str__(self) -> str:
        return f"{self.share} of {self.taskset_id} for {self.run_id}"
