"""Events with sequence numbers in Postgres, so that a browser can ask for those it missed."""

from django.db import connection, models, transaction
from psycopg.types.json import Jsonb

from apps.accounts.models import Project, User
from apps.accounts.public_text import public_text
from apps.streaming import worker_notifications


class TopicQuerySet(models.QuerySet["Topic"]):
    def visible_to(self, user: User) -> "TopicQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Topic(models.Model):
    """A subject that can be followed, such as a run; its project decides who may."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="topics")
    name = models.CharField(max_length=120, unique=True)
    sequence = models.BigIntegerField(default=0)

    objects = TopicQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def record(self, kind: str, **payload: object) -> "Event":
        """Append an event in the caller's transaction and notify followers after the commit.

        The lock on the counter's row makes the sequence follow the order of commits: a reader that
        saw n has seen all before it.
        """
        if "reason" in payload:
            payload["reason"] = public_text(payload["reason"])
        with connection.cursor() as cursor:
            cursor.execute(
                RECORD,
                [self.pk, kind, Jsonb(payload)],  # type: ignore[list-item] # the stubs lack it
            )
            key, sequence, at = cursor.fetchone()
        transaction.on_commit(
            lambda: worker_notifications.announce(
                self.name, sequence, kind, payload, at.isoformat()
            ),
            robust=True,
        )
        return Event(pk=key, topic=self, sequence=sequence, kind=kind, payload=payload, at=at)


# One statement, as most transactions that change a run record an event.
RECORD = """
    WITH topic AS (
        UPDATE streaming_topic SET sequence = sequence + 1 WHERE id = %s RETURNING id, sequence)
    INSERT INTO streaming_event (topic_id, sequence, kind, payload, at)
    SELECT id, sequence, %s, %s, clock_timestamp() FROM topic
    RETURNING id, sequence, at"""


class Event(models.Model):
    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="events")
    sequence = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    payload = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["sequence"]
        constraints = [
            models.UniqueConstraint(fields=["topic", "sequence"], name="one_event_per_sequence")
        ]
        # For a run's settings page and charts, which show a few of its many events.
        indexes = [
            models.Index(
                fields=["topic", "-id"],
                name="changes_of_configuration",
                condition=models.Q(kind="config_changed"),
            )
        ]

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.sequence} {self.kind}"
