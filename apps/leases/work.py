"""Whole jobs that one worker does at a time; another one starts them again when the first dies."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Now
from typing_extensions import TypeVar

from apps.leases.lease import Claim, WorkerLease, WorkerLeaseQuerySet

_Work = TypeVar("_Work", bound="LeasedWork", covariant=True)
_WorkRow = TypeVar("_WorkRow", covariant=True, default=_Work)

MAX_ATTEMPTS = 3  # work at which so many workers died is what they die of


class WorkOver(Exception):
    """Raised when another worker holds the work by now, or it is over."""


class LeasedWorkQuerySet(WorkerLeaseQuerySet[_Work, _WorkRow]):
    def open(self) -> Self:
        return self.filter(state__in=self.model.OPEN)

    def due(self) -> Self:
        """Select the rows that a worker may claim."""
        return self.open().free()

    def held(self, claims: Iterable[Claim]) -> Self:
        return super().held(claims).filter(state="running")

    def claim(self, owner: str, seconds: float, only: Q | None = None) -> _Work | None:
        """Return the oldest that is due, ours until the lease ends; None where none is.

        Work that has used up its attempts is ended on the way. `only`: a condition that it must
        meet.
        """
        changes: dict[str, Any] = {
            "state": "running",
            "attempts": F("attempts") + 1,
            "started_at": Coalesce("started_at", Now()),
            **dict.fromkeys(self.model.PROGRESS, 0),
        }
        due = self.open().filter(only or Q())
        while claimed := due._claim(owner, seconds, 1, **changes):
            if not claimed[0].end_if_worn_out():
                return claimed[0]
        return None


class LeasedWork(WorkerLease):
    """Base of work under a lease; `OPEN`: its states waiting and running.

    `PROGRESS`: the columns that tell how far it is; who takes it up begins at 0.
    """

    # The work need not start again because the database was away for longer than a lease.
    OUTLIVES_LEASE = True
    OPEN: tuple[str, ...] = ("waiting", "running")
    PROGRESS: tuple[str, ...] = ()

    # One of `OPEN`, or a state in which the work is over; each kind has its own column.
    state: "models.CharField[Any, str]"
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects: ClassVar = LeasedWorkQuerySet.as_manager()

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    def fail(self, reason: str) -> None:
        """End the work with a reason. May raise WorkOver."""
        raise NotImplementedError

    def end_if_worn_out(self) -> bool:
        if self.attempts <= MAX_ATTEMPTS:
            return False
        with suppress(WorkOver):
            self.fail(f"the worker stopped during each of {MAX_ATTEMPTS} attempts")
        return True
