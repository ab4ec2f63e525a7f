"""Results of evaluations, computed once when complete; the table of versions reads these."""

from django.db import models
from django.db.models.functions import Now

from apps.runs.models import Run


class EvaluationResult(models.Model):
    """The result of a completed evaluation, whose rollouts and rewards no longer change."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="result")
    metrics = models.JSONField(help_text="apps.evaluation.results.EvaluationMetrics, as JSON.")
    by_task = models.JSONField(
        null=True,
        help_text=(
            "apps.evaluation.results.ByTask, as JSON; NULL for results without metrics per task."
        ),
    )
    made_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"result of {self.run_id}"
