"""How far a run's scorers say what people say: the figures as they stand, and whether a scorer is under its owner's threshold."""

from django.db import models
from django.db.models.functions import Now

from apps.runs.models import Run


class Calibration(models.Model):
    """One scorer of a run against people's labels, at tasks of one domain or (NULL) at all; made anew as people decide.

    `alarm`: why it is under what its owner asks of it; empty while it is not.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="calibrations")
    scorer = models.CharField(max_length=60)
    domain = models.CharField(max_length=60, null=True)  # "" are the tasks without one
    figures = models.JSONField(help_text="apps.feedback.statistics.calibration.Calibration")
    widest = models.JSONField(default=list, help_text="[rollout, scorer, people], both 0 to 1: where they lie furthest apart.")
    last_rating = models.BigIntegerField(help_text="The run's newest rating when it was made.")
    made_at = models.DateTimeField(db_default=Now())
    alarm = models.CharField(max_length=500, blank=True)
    alarmed_at = models.DateTimeField(null=True)
    has_paused = models.BooleanField(default=False, help_text="The run was paused for this alarm.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "scorer", "domain"], nulls_distinct=False, name="one_calibration_per_scorer_and_domain"
            )
        ]

    def __str__(self) -> str:
        return f"{self.scorer} of {self.run_id}"
