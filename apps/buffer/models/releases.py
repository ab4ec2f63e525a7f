"""Releases: records of the token arrays that retention deleted, and when."""

from django.db import models
from django.db.models.functions import Now

from apps.runs.models import Run


class Release(models.Model):
    """A record of the groups whose arrays were deleted in one transaction."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="releases")
    groups = models.PositiveIntegerField()
    rollouts = models.PositiveIntegerField()
    bytes = models.BigIntegerField(help_text="Bytes of the arrays.")
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"arrays of {self.rollouts} rollouts of {self.run_id}"
