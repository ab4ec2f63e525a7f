"""Row locks: the only way to take them, and retries when two transactions still conflict.

docs/operations.md, "Lock order", says in which order a transaction locks rows of several tables.
"""

import functools
import random
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import structlog
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Model, QuerySet

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Model)

log = structlog.get_logger(__name__)
DEADLOCK = "40P01"
SERIALIZATION_FAILURE = "40001"
LOCK_TIMEOUT = "55P03"
ATTEMPTS = 5
FIRST_PAUSE_S = 0.02


def lock_rows(rows: QuerySet[M], *of: str, skip_locked: bool = False) -> list[M]:
    """Lock these rows until the transaction ends, in the order of their ids, and return them.

    A list of objects and not a query to build on, because Django forgets `of` in a query of values,
    and would lock every joined table.
    """
    return list(rows_to_lock(rows, *of, skip_locked=skip_locked))


def rows_to_lock(rows: QuerySet[M], *of: str, skip_locked: bool = False) -> QuerySet[M]:
    """Return the query that locks these rows when it runs; for `lock_rows` and compiled queries.

    `FOR NO KEY UPDATE` excludes other writers, but not an INSERT whose foreign key refers to the
    row: such an INSERT checks the key at COMMIT, when its transaction already holds other locks.
    `of`: selected relations whose rows are locked too, before the rows themselves. Tables that the
    query merely joins stay unlocked.
    """
    if rows._fields is not None:  # type: ignore[attr-defined] # the stubs lack it
        raise TypeError("lock() takes a query of objects, not one of values")
    names = (*of, "self")
    rows = rows if rows.query.is_sliced else rows.order_by("pk")
    return rows.select_for_update(of=names, no_key=True, skip_locked=skip_locked)


def is_locking(rows: QuerySet[Any, Any]) -> bool:
    """Tell whether the query locks its rows when it runs."""
    return rows.query.select_for_update


def lock_ids(rows: QuerySet, skip_locked: bool = False) -> list[int]:
    """Lock rows as `lock_rows` does, and return their ids only."""
    return [row.pk for row in lock_rows(rows.only("pk"), skip_locked=skip_locked)]


def lock_first(rows: QuerySet[M], *of: str, skip_locked: bool = False) -> M | None:
    """Lock the row with the lowest id; None when there is none."""
    locked = lock_rows(rows.order_by("pk")[:1], *of, skip_locked=skip_locked)
    return locked[0] if locked else None


def lock_one(rows: QuerySet[M], *of: str) -> M:
    """Lock the only row of this query. Raises the model's DoesNotExist."""
    locked = lock_rows(rows, *of)
    if len(locked) != 1:
        error = "MultipleObjectsReturned" if locked else "DoesNotExist"
        raise getattr(rows.model, error)(
            f"{len(locked)} rows of {rows.model.__name__} to lock, not one"
        )
    return locked[0]


def is_conflict(error: BaseException) -> bool:
    """Tell whether PostgreSQL ended the transaction because of another; a retry may succeed."""
    code = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, OperationalError) and code in (DEADLOCK, SERIALIZATION_FAILURE)


def violated_constraint(error: IntegrityError) -> str | None:
    """Return the name of the constraint that PostgreSQL found violated."""
    diagnosis = getattr(error.__cause__, "diag", None)
    return getattr(diagnosis, "constraint_name", None)


def is_blocked(error: BaseException) -> bool:
    """Tell whether PostgreSQL gave up waiting for another transaction's lock."""
    code = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, OperationalError) and code == LOCK_TIMEOUT


def retrying(work: Callable[P, T]) -> Callable[P, T]:
    """Run a unit of work again after a deadlock or a serialization failure rolled it back.

    For functions that are one transaction, or can be repeated after any of their transactions.
    Inside an outer transaction nothing is retried here: the outer unit of work does that.
    """

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(1, ATTEMPTS):
            try:
                return work(*args, **kwargs)
            except OperationalError as error:
                if connection.in_atomic_block or not is_conflict(error):
                    raise
                log.info("lock_conflict", work=work.__qualname__, attempt=attempt)
            pause(attempt)
        return work(*args, **kwargs)

    return run


def unit_of_work(work: Callable[P, T]) -> Callable[P, T]:
    """Run the function in a transaction of its own, and retry it after a conflict.

    The function must not change the objects that it gets before its last statement, and must not
    use up iterators: the next attempt starts with the same ones.
    """
    return retrying(transaction.atomic(work))


def pause(attempt: int) -> None:
    """Wait a random time, longer with each attempt, so that two transactions do not meet again."""
    time.sleep(random.uniform(0, FIRST_PAUSE_S * 2**attempt))
