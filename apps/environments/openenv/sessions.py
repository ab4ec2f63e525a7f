"""Sessions as rows, so that their number per environment is limited across all web processes.

No session outlives its connection.
"""

from datetime import timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, lock_one, unit_of_work
from apps.accounts.models import User
from apps.environments.action_waiters import notify_episodes
from apps.environments.models import Environment, Episode, PlaySession

KEPT_EVERY_S = 15.0
LIVES_S = 60.0  # seconds without renewal after which a session counts as lost
LOST = "its web process stopped responding"


class NoRoom(Exception):
    """Raised when the largest number of sessions is reached."""

    def __init__(self, active: int, limit: int) -> None:
        self.active = active
        self.limit = limit
        super().__init__(f"Server at capacity: {active}/{limit} sessions active")


@unit_of_work
def begin_session(environment: Environment, user: User, way: str) -> PlaySession:
    """Begin a session. Raises NoRoom."""
    limit = lock_one(Environment.objects.filter(pk=environment.pk)).parallel
    active = living(environment).count()
    if active >= limit:
        raise NoRoom(active, limit)
    return PlaySession.objects.create(environment=environment, user=user, way=way)


def living(environment: Environment) -> QuerySet[PlaySession]:
    """Return the sessions with a live connection."""
    return environment.sessions.filter(
        closed_at=None, alive_at__gt=Now() - timedelta(seconds=LIVES_S)
    )


def keep_session(session_id: int, is_heard: bool = False) -> bool:
    """Record that the connection is alive and, with `is_heard`, that the client sent something.

    Returns False if the session was closed by another process.
    """
    changes = {"heard_at": Now()} if is_heard else {}
    return bool(
        PlaySession.objects.filter(pk=session_id, closed_at=None).update(alive_at=Now(), **changes)
    )


@unit_of_work
def close_session(session_id: int, reason: str) -> None:
    """Close the session and abandon its episode. An ended session is not changed."""
    if PlaySession.objects.filter(pk=session_id, closed_at=None).update(
        closed_at=Now(), reason=reason[:300]
    ):
        _abandon(Q(session=session_id), reason)


@unit_of_work
def close_lost() -> int:
    """Close sessions without a live connection, and abandon the open episodes of ended ones.

    Returns the number of sessions.
    """
    lost = PlaySession.objects.filter(
        closed_at=None, alive_at__lte=Now() - timedelta(seconds=LIVES_S)
    )
    ids = lock_ids(lost, skip_locked=True)
    closed = PlaySession.objects.filter(pk__in=ids).update(closed_at=Now(), reason=LOST)
    _abandon(Q(session__closed_at__isnull=False), LOST)
    return closed


def _abandon(condition: Q, reason: str) -> None:
    ids = lock_ids(Episode.objects.open().filter(condition))
    Episode.objects.filter(pk__in=ids).update(
        state=Episode.State.ABANDONED, reason=reason[:300], closed_at=Now(), heard_at=Now()
    )
    notify_episodes(ids)
