"""Calibrations: how well a run's scorers agree with people, and which are below their threshold."""

from django.db import models
from django.db.models.functions import Now

from apps.runs.models import Run


class Calibration(models.Model):
    """One scorer of a run compared with people's labels, on tasks of one domain or (NULL) on all.

    It is recomputed as people decide. `alarm` says why it is below its threshold; it is ""
    otherwise.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="calibrations")
    scorer = models.CharField(max_length=60)
    domain = models.CharField(max_length=60, null=True)  # "" are the tasks without one
    metrics = models.JSONField(help_text="apps.statistics.calibration.Calibration")
    widest = models.JSONField(
        default=list,
        help_text=(
            "Largest disagreements: [rollout, scorer's value, people's value], both "
            "values from 0 to 1."
        ),
    )
    last_rating = models.BigIntegerField(help_text="ID of the run's newest rating at that time.")
    made_at = models.DateTimeField(db_default=Now())
    alarm = models.CharField(max_length=500, blank=True)
    alarmed_at = models.DateTimeField(null=True)
    has_paused = models.BooleanField(
        default=False, help_text="The run was paused because of this alarm."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "scorer", "domain"],
                nulls_distinct=False,
                name="one_calibration_per_scorer_and_domain",
            )
        ]

    def __str__(self) -> str:
        return f"{self.scorer} of {self.run_id}"
