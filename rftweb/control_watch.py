"""Monitoring of the control plane by web processes: a process that is behind cannot report it.

While the last sweep is too old, this process opens alerts of the rule `control_worker_late` and
sends due deliveries. Both happen once even if several processes do them at the same time.
"""

import threading
import time

import structlog
from django.db import Error, connections

from apps.alerts.delivering import deliver
from apps.alerts.evaluating import look_at_control
from apps.runs import control_plane

log = structlog.get_logger(__name__)
PERIOD_S = 10.0


class ControlWatch:
    """A check whose `step` the heartbeat thread of the web process calls, and that must be fast."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._acting: threading.Thread | None = None

    def step(self) -> None:
        """Check every ten seconds. Raise Error while the database is unavailable."""
        if time.monotonic() - self._looked_at < PERIOD_S:
            return
        self._looked_at = time.monotonic()
        if control_plane.read_control_plane().is_behind and not (
            self._acting and self._acting.is_alive()
        ):
            self._acting = threading.Thread(
                target=watch_control_plane, name="control watch", daemon=True
            )
            self._acting.start()

    def join(self, seconds: float) -> None:
        if self._acting:
            self._acting.join(seconds)


def watch_control_plane() -> None:
    """Open the alert for each live run, and send due deliveries."""
    try:
        if opened := look_at_control():
            log.warning("control_worker_late", **opened)
        deliver()
    except Error as error:
        log.warning("database_unavailable", error=str(error).strip())
    finally:
        connections.close_all()
