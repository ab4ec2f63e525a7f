"""Events with sequence numbers kept in Postgres, so that a browser can always ask for what it missed."""

from django.db import models, transaction
from django.db.models import F

from apps.accounts.models import Project, User
from apps.accounts.public_text import public_text
from apps.streaming import bells


class TopicQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "TopicQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Topic(models.Model):
    """Something one can follow, such as a run. Its project says who may."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="topics")
    name = models.CharField(max_length=100, unique=True)
    sequence = models.BigIntegerField(default=0)

    objects = TopicQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def record(self, kind: str, **payload: object) -> "Event":
        """Append an event in the caller's transaction and ring its followers once that has committed.

        The counter's row lock makes sequence order commit order: whoever saw n has seen all before it.
        """
        if "reason" in payload:
            payload["reason"] = public_text(payload["reason"])
        with transaction.atomic():
            Topic.objects.filter(pk=self.pk).update(sequence=F("sequence") + 1)
            sequence = Topic.objects.values_list("sequence", flat=True).get(pk=self.pk)
            event = Event.objects.create(topic=self, sequence=sequence, kind=kind, payload=payload)
            transaction.on_commit(lambda: bells.announce(self.name, sequence, kind, payload, event.at.isoformat()), robust=True)
        return event


class Event(models.Model):
    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="events")
    sequence = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    payload = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["sequence"]
        constraints = [models.UniqueConstraint(fields=["topic", "sequence"], name="one_event_per_sequence")]
        # A run's settings page and its charts tell of the few among its many events.
        indexes = [
            models.Index(fields=["topic", "-id"], name="changes_of_configuration", condition=models.Q(kind="config_changed"))
        ]

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.sequence} {self.kind}"
