"""What an evaluation said, summed up once when it was complete: a table of versions reads these, not the rollouts."""

from django.db import models
from django.db.models.functions import Now

from apps.runs.models import Run


class EvaluationResult(models.Model):
    """Of a completed evaluation, whose rollouts and rewards stay as they are."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="result")
    figures = models.JSONField(help_text="apps.feedback.evaluation.results.Found, as JSON.")
    by_task = models.JSONField(
        null=True, help_text="apps.feedback.evaluation.results.ByTask, as JSON; NULL where it was summed up before this was kept."
    )
    made_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"result of {self.run_id}"
