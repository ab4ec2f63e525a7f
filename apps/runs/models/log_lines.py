"""Log lines of the installation's processes, for as long as they are kept."""

from datetime import timedelta

from django.contrib.postgres.indexes import BrinIndex
from django.db import connection, models
from django.db.models import Max, Q
from django.db.models.functions import Now

from apps.runs.models.run import Run

LINES_AT_ONCE = 5_000  # of a delete: it holds no lock for long


class LogLineQuerySet(models.QuerySet["LogLine"]):
    def prune(self, days: int, lines: int) -> int:
        """Delete lines that are too old, and all but the newest ones.

        Walks the primary key from its old end.
        """
        newest = self.aggregate(newest=Max("pk"))["newest"] or 0
        old = Q(at__lt=Now() - timedelta(days=days)) | Q(pk__lte=newest - lines)
        deleted = 0
        while True:
            some = self.order_by("pk").values(
                "pk", is_old=models.Case(models.When(old, then=True), default=False)
            )
            ids = [row["pk"] for row in some[:LINES_AT_ONCE] if row["is_old"]]
            deleted += len(ids)
            if ids:
                with connection.cursor() as cursor:
                    cursor.execute("DELETE FROM runs_logline WHERE id = ANY(%s)", [ids])
            if len(ids) < LINES_AT_ONCE:
                return deleted


class LogLine(models.Model):
    """One event of a log.

    `fields` hold no secret (apps.runs.log_keeper); `at` is of the clock of who said it.
    """

    class Level(models.IntegerChoices):
        DEBUG = 10
        INFO = 20
        WARNING = 30
        ERROR = 40
        CRITICAL = 50

    at = models.DateTimeField()
    level = models.PositiveSmallIntegerField(choices=Level.choices)
    event = models.CharField(
        max_length=200, help_text="Event name such as `step_committed`, or a sentence."
    )
    logger = models.CharField(max_length=100, blank=True)
    run = models.ForeignKey(
        Run, null=True, on_delete=models.CASCADE, related_name="log_lines", db_index=False
    )
    worker = models.CharField(
        max_length=80, blank=True, help_text="Key of the process that wrote the line."
    )
    fields = models.JSONField(default=dict)

    objects = LogLineQuerySet.as_manager()

    class Meta:
        # Small ones: rows come and go all the time. Pages walk by id; what is searched for is
        # looked for within a reach.
        indexes = [
            models.Index(
                fields=["run", "-id"], name="log_of_a_run", condition=Q(run__isnull=False)
            ),
            models.Index(fields=["worker", "-id"], name="log_of_a_worker"),
            BrinIndex(fields=["at"], name="log_by_time", pages_per_range=32),
        ]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.event}"
