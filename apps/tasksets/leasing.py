"""Long work that one worker at a time does for somebody: claimed by lease and fence, taken up by another when its worker dies."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

MOST_ATTEMPTS = 3  # work at which so many workers died is what they die of


class LeasedQuerySet(models.QuerySet):
    def open(self) -> Self:
        return self.filter(state__in=self.model.OPEN)

    def due(self) -> Self:
        """What a worker may take up: nobody is at it, or who was has not been heard of for a lease."""
        return self.open().filter(Q(lease_until=None) | Q(lease_until__lt=Now()))

    def claim(self, owner: str, seconds: float, only: str = "TRUE") -> "LeasedWork | None":
        """The oldest that is due, ours until the lease ends; None where none is. Each claim has another fence.

        `only`: a condition in SQL that it must meet, a constant of ours.
        """
        begun_anew = "".join(f", {name} = 0" for name in self.model.PROGRESS)
        table = self.model._meta.db_table
        sql = f"""
            WITH due AS MATERIALIZED (
                SELECT id FROM {table} WHERE state IN ('waiting', 'running') AND ({only})
                    AND (lease_until IS NULL OR lease_until < statement_timestamp())
                ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
            UPDATE {table} o SET state = 'running', lease_owner = %(owner)s, fence = o.fence + 1{begun_anew},
                attempts = o.attempts + 1, started_at = coalesce(o.started_at, statement_timestamp()),
                lease_until = statement_timestamp() + %(seconds)s * interval '1 second'
            FROM due WHERE o.id = due.id RETURNING o.*"""
        return next(iter(self.raw(sql, {"owner": owner, "seconds": seconds})), None)


class LeasedWork(models.Model):
    """`OPEN`: its states waiting and running. `PROGRESS`: the columns that tell how far it is; who takes it up begins at 0."""

    OPEN: tuple[str, ...] = ("waiting", "running")
    PROGRESS: tuple[str, ...] = ()

    attempts = models.PositiveSmallIntegerField(default=0)
    lease_owner = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = LeasedQuerySet.as_manager()

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    def _ours(self) -> models.QuerySet:
        """This row, while nobody has taken it up after us and it is not over."""
        return type(self).objects.filter(pk=self.pk, fence=self.fence, state="running")
