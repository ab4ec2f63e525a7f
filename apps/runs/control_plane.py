"""Delay of the control plane: its last completed sweep, and the workers that can do the next.

A sweep is due every five seconds. Nothing here needs the control worker, so that pages, `/readyz`
and alerts (rftweb.control_watch) can report that it is missing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from apps.streaming import worker_notifications

BEHIND_S = 60.0
START = "manage.py up starts every process"
NO_WORKER = (
    f"No control worker is running. Start one: {START}, manage.py up --only control only this one."
)
NO_BEAT = f"Beat is not running, so no job is scheduled. {START}, manage.py up --only beat only it."
NO_REDIS = "Redis does not answer, so no job can be sent. Check REDIS_URL and the server behind it."
LOOK_AT_LOG = (
    "A control worker and beat are running. Look at the control worker's log on the page Workers."
)


@dataclass(frozen=True)
class ControlPlane:
    """State of the control plane; `behind_s`: seconds since the last sweep.

    If the oldest process started later, they are counted from that.

    `queued`: messages in the control queue while it is behind, None if Redis does not answer.
    """

    now: datetime
    behind_s: float
    swept_at: datetime | None
    workers: int
    beats: int
    queued: int | None

    @property
    def is_behind(self) -> bool:
        return self.behind_s > BEHIND_S

    @property
    def since(self) -> datetime:
        return self.now - timedelta(seconds=self.behind_s)

    @property
    def words(self) -> str:
        jobs = "job" if self.queued == 1 else "jobs"
        queued = f", and {self.queued} {jobs} in its queue" if self.queued else ""
        return f"No sweep for {duration(self.behind_s)} (one is due every 5 s){queued}."

    @property
    def todo(self) -> str:
        """Return what to do about a control plane that is behind."""
        if not self.workers:
            return NO_WORKER
        if not self.beats:
            return NO_BEAT
        return NO_REDIS if self.queued is None else LOOK_AT_LOG


LOOK = """
    SELECT statement_timestamp(), max(swept_at), min(started_at) FILTER (WHERE alive),
        count(*) FILTER (WHERE alive AND role = 'control'),
        count(*) FILTER (WHERE alive AND role = 'beat')
    FROM runs_worker, LATERAL (SELECT stopped_at IS NULL
        AND heartbeat_at >= statement_timestamp() - %s * interval '1 second' AS alive) living
"""


def read_control_plane() -> ControlPlane:
    """Return the state of the control plane, by one query.

    The queue is looked at too if it is behind, since Redis may be missing.
    """
    with connection.cursor() as cursor:
        cursor.execute(LOOK, [settings.LEASE_SECONDS])
        now, swept_at, begun_at, workers, beats = cursor.fetchone()
    behind_s = 0.0
    if begun_at is not None:  # with no process at all nobody expects a sweep
        last = max(swept_at, begun_at) if swept_at else begun_at
        behind_s = max(0.0, (now - last).total_seconds())
    queued = _queued() if behind_s > BEHIND_S else 0
    return ControlPlane(now, behind_s, swept_at, workers, beats, queued)


def _queued() -> int | None:
    try:
        return worker_notifications.connection().llen("control")
    except worker_notifications.DEAD_REDIS:
        return None


def duration(seconds: float) -> str:
    """Return a duration in words, such as 40 s, 12 min or 3 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.0f} h"
