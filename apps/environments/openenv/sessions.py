"""Sessions as rows: so many at once in an environment, whichever web process holds them, and none that outlives its connection."""

from datetime import timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, lock_one, unit_of_work
from apps.accounts.models import User
from apps.environments.models import Environment, Episode, PlaySession
from apps.environments.waiting import ring

KEPT_EVERY_S, LIVES_S = 15.0, 60.0  # a session whose process has not kept it for so long is lost
LOST = "the web process that held it went away"


class NoRoom(Exception):
    """As many sessions play as may at once."""

    def __init__(self, active: int, most: int) -> None:
        self.active, self.most = active, most
        super().__init__(f"Server at capacity: {active}/{most} sessions active")


@unit_of_work
def begin(environment: Environment, user: User, way: str) -> PlaySession:
    """Raises NoRoom."""
    most = lock_one(Environment.objects.filter(pk=environment.pk)).parallel
    active = living(environment).count()
    if active >= most:
        raise NoRoom(active, most)
    return PlaySession.objects.create(environment=environment, user=user, way=way)


def living(environment: Environment) -> QuerySet[PlaySession]:
    """Those whose connection is there now."""
    return environment.sessions.filter(closed_at=None, alive_at__gt=Now() - timedelta(seconds=LIVES_S))


def keep(session_id: int, is_heard: bool = False) -> bool:
    """Its connection lives, and its client was heard since. False when the session was closed from elsewhere."""
    heard = {"heard_at": Now()} if is_heard else {}
    return bool(PlaySession.objects.filter(pk=session_id, closed_at=None).update(alive_at=Now(), **heard))


@unit_of_work
def close(session_id: int, reason: str) -> None:
    """It is over, and what it played with it. One that has ended stays as it is."""
    if PlaySession.objects.filter(pk=session_id, closed_at=None).update(closed_at=Now(), reason=reason[:300]):
        _abandon(Q(session=session_id), reason)


@unit_of_work
def close_lost() -> int:
    """Close sessions that nobody keeps any more, and what an ended one has left open. Returns how many sessions."""
    lost = PlaySession.objects.filter(closed_at=None, alive_at__lte=Now() - timedelta(seconds=LIVES_S))
    ids = lock_ids(lost, skip_locked=True)
    closed = PlaySession.objects.filter(pk__in=ids).update(closed_at=Now(), reason=LOST)
    _abandon(Q(session__closed_at__isnull=False), LOST)
    return closed


def _abandon(which: Q, reason: str) -> None:
    ids = lock_ids(Episode.objects.open().filter(which))
    Episode.objects.filter(pk__in=ids).update(state=Episode.State.ABANDONED, reason=reason[:300], closed_at=Now(), heard_at=Now())
    ring(ids)
