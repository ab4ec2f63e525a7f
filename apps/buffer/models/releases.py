"""Releases: when the arrays of how many rollouts were let go. What went is not kept; that it went is."""

from django.db import models
from django.db.models.functions import Now

from apps.runs.models import Run


class Release(models.Model):
    """Groups whose arrays went together, in one transaction."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="releases")
    groups = models.PositiveIntegerField()
    rollouts = models.PositiveIntegerField()
    bytes = models.BigIntegerField(help_text="Of their arrays.")
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"arrays of {self.rollouts} rollouts of {self.run_id}"
