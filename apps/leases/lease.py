"""The columns of a lease, and its operations for any number of rows.

All times are those of the database (`statement_timestamp()`), since clocks of workers differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any, ClassVar, Self, cast

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.expressions import CombinedExpression, RawSQL
from django.db.models.functions import Now
from django.db.models.sql import UpdateQuery
from typing_extensions import TypeVar

from apps.accounts.compiled_queries import Returning
from apps.accounts.locking import lock_ids, retrying

# The model of a query set, and what its rows are: the model too, unless `values` says otherwise.
_Leased = TypeVar("_Leased", bound="Lease", covariant=True)
_LeasedRow = TypeVar("_LeasedRow", covariant=True, default=_Leased)
_Held = TypeVar("_Held", bound="WorkerLease", covariant=True)
_HeldRow = TypeVar("_HeldRow", covariant=True, default=_Held)


class StaleFence(Exception):
    """Raised when another worker has taken this work over: writes with the old fence fail."""


def after(seconds: float) -> CombinedExpression:
    """Return the time in `seconds`, by the database's clock (worker clocks differ)."""
    return Now() + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Claim:
    """A claim on a row: the fence under which its holder may write; older fences are refused."""

    pk: int
    fence: int


class LeaseQuerySet(models.QuerySet[_Leased, _LeasedRow]):
    """Rows under leases."""

    def free(self) -> Self:
        """Select the rows that anybody may claim: never leased, or with an expired lease."""
        return self.filter(Q(lease_until=None) | Q(lease_until__lt=Now()))

    def leased(self) -> Self:
        """Select the rows whose lease is in force."""
        return self.filter(lease_until__gte=Now())

    def expired(self) -> Self:
        return self.filter(lease_until__lt=Now())

    def not_expired(self) -> Self:
        """Select the rows without a lease, and those whose lease is in force."""
        return self.filter(Q(lease_until=None) | Q(lease_until__gte=Now()))

    def under(self, claims: Iterable[Claim]) -> Self:
        """Select the rows that nobody has claimed after these claims."""
        fences = Q(pk__in=())
        for claim in claims:
            fences |= Q(pk=claim.pk, fence=claim.fence)
        return self.filter(fences)

    def held(self, claims: Iterable[Claim]) -> Self:
        """Select the rows that these claims still hold."""
        ours = self.under(claims)
        return (
            ours.filter(lease_until__isnull=False) if self.model.OUTLIVES_LEASE else ours.leased()
        )

    def renew(self, claims: Iterable[Claim], seconds: float, **changes: Any) -> set[int]:
        """Extend the leases that these claims hold, from now; return the ids of their rows.

        `changes`: further columns to set, such as the progress.
        """
        return self._change(list(claims), lease_until=after(seconds), **changes)

    def release(self, claims: Iterable[Claim], **changes: Any) -> set[int]:
        """Free the rows that these claims hold; return their ids.

        `changes`: further columns to set, such as a result.
        """
        return self._change(list(claims), **self.model.FREED, **changes)

    def expire(self) -> int:
        """Handle expired leases in the sweep; return how many.

        By default there is nothing to do: the next claim takes such a row, counts the attempt and
        ends work that is worn out. Kinds whose rows must not look held until then override this.
        """
        return 0

    @retrying
    def _change(self, claims: list[Claim], **changes: Any) -> set[int]:
        """Change the rows that these claims hold; several are locked first, in order."""
        if len(claims) == 1:
            return {claims[0].pk} if self.held(claims).update(**changes) else set()
        if not claims:
            return set()
        with transaction.atomic():
            ours = lock_ids(self.held(claims))
            self.filter(pk__in=ours).update(**changes)
        return set(ours)


class Lease(models.Model):
    """A row that one holder works on until a point in time."""

    # Whether a holder whose lease has ended may write until somebody else claims the row.
    OUTLIVES_LEASE = False
    FREED: dict[str, Any] = {"lease_until": None}

    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)

    objects: ClassVar = LeaseQuerySet.as_manager()

    class Meta:
        abstract = True

    @property
    def claimed(self) -> Claim:
        return Claim(self.pk, self.fence)

    def held(self) -> LeaseQuerySet[Self]:
        """Return a query for this row; empty once our claim no longer holds it."""
        # The manager of an abstract model is typed as one of that model.
        return cast("LeaseQuerySet[Self]", type(self).objects.held([self.claimed]))

    def renew(self, seconds: float, **changes: Any) -> bool:
        """Extend the lease, from now; return whether we still hold the row."""
        return bool(type(self).objects.renew([self.claimed], seconds, **changes))

    def release(self, **changes: Any) -> bool:
        """Free the row, with these changes; return whether we still held it."""
        return bool(type(self).objects.release([self.claimed], **changes))


class WorkerLeaseQuerySet(LeaseQuerySet[_Held, _HeldRow]):
    def claim_rows(
        self,
        owner: str,
        seconds: float,
        limit: int | None = None,
        *,
        waits: bool = False,
        **changes: Any,
    ) -> list[_Held]:
        """Claim the first `limit` free rows of this set, by id; all of them without a limit.

        Each claim raises the fence; `changes` are further columns to set. Work that has used up its
        attempts is ended instead (`end_if_worn_out`). Rows that another transaction has locked are
        left out, or with `waits` waited for.
        """
        claimed = self._claim(owner, seconds, limit, waits=waits, **changes)
        return [row for row in claimed if not row.end_if_worn_out()]

    def _claim(
        self, owner: str, seconds: float, limit: int | None, *, waits: bool = False, **changes: Any
    ) -> list[_Held]:
        statement = self.claiming(owner, after(seconds), limit, waits=waits, **changes)
        claimed = self.raw(statement.sql, statement.values, using=self.db)
        return sorted(claimed, key=attrgetter("pk"))

    def claiming(
        self, owner: str, until: Any, limit: int | None, *, waits: bool = False, **changes: Any
    ) -> Returning[_Held]:
        """Return one statement that locks the free rows, claims them and returns them.

        SKIP LOCKED: two claimers never take the same row, nor wait for each other. The CTE is
        materialised, as the planner could run a plain subquery more than once, each time locking
        other rows.
        """
        due = self.free().order_by("pk").values("pk")[:limit]
        lease = {"lease_owner": owner, "lease_until": until, "fence": F("fence") + 1}
        update = self.model._base_manager.filter(pk__in=RawSQL("SELECT due.pk FROM due", ()))
        query = update.query.chain(UpdateQuery)
        assert isinstance(query, UpdateQuery)
        query.add_update_values({**lease, **changes})
        set_sql, set_values = query.get_compiler(self.db).as_sql()
        due_sql, due_values = due.query.sql_with_params()
        mode = "" if waits else " SKIP LOCKED"
        locked = f'{due_sql} FOR NO KEY UPDATE OF "{self.model._meta.db_table}"{mode}'
        table = self.model._meta.db_table
        columns = ", ".join(
            f'"{table}"."{field.column}"' for field in self.model._meta.concrete_fields
        )
        sql = f"WITH due (pk) AS MATERIALIZED ({locked}) {set_sql} RETURNING {columns}"
        return Returning(self.model, sql, (*due_values, *set_values))

    def revoke(self, owner: str) -> int:
        """End the leases of this owner at once; its late writes are refused. Return how many."""
        leases = self.leased().filter(lease_owner=owner)
        return leases.update(**self.model.FREED, fence=F("fence") + 1)


class WorkerLease(Lease):
    """A row that a worker holds: `lease_owner` is the worker's key."""

    FREED = {"lease_owner": "", "lease_until": None}

    lease_owner = models.CharField(max_length=200, blank=True)

    objects: ClassVar = WorkerLeaseQuerySet.as_manager()

    class Meta:
        abstract = True

    def end_if_worn_out(self) -> bool:
        """End claimed work at which too many workers have died; return whether it was ended."""
        return False
