"""A process that serves runs, as it tells of itself."""

from django.db import models
from django.db.models.functions import Now


class Worker(models.Model):
    """A process that serves runs: what it is, what it does now, when it last said so."""

    class Role(models.TextChoices):
        EXPLORER = "explorer"
        SCORER = "scorer"
        REFINER = "refiner"
        TRAINER = "trainer"

    key = models.CharField(max_length=80, unique=True, help_text="role@host:pid:start, the lease owner's name.")
    role = models.CharField(max_length=10, choices=Role.choices)
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    device = models.CharField(max_length=100, blank=True)
    engine = models.CharField(max_length=50, blank=True)
    details = models.JSONField(default=dict, help_text="Versions of code and libraries, and why this engine was chosen.")
    doing = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(auto_now_add=True)
    stopped_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.key

    def beat(self, doing: str) -> None:
        Worker.objects.filter(pk=self.pk).update(heartbeat_at=Now(), doing=doing[:200], stopped_at=None)

    def stop(self) -> None:
        Worker.objects.filter(pk=self.pk).update(stopped_at=Now(), doing="")
