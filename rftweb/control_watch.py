"""The web process watches the control plane: whoever is behind cannot be relied on to say so.

While the last sweep is too old, alerts of the rule `control_behind` are opened from here, and
deliveries that are due are sent from here. Both are done once even where several processes do them
at the same time.
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
    """`step` is called by the thread that beats for the web process, which it must not hold up."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._acting: threading.Thread | None = None

    def step(self) -> None:
        """Look every ten seconds. Raises Error while the database is away."""
        if time.monotonic() - self._looked_at < PERIOD_S:
            return
        self._looked_at = time.monotonic()
        if control_plane.look().is_behind and not (self._acting and self._acting.is_alive()):
            self._acting = threading.Thread(target=act, name="control watch", daemon=True)
            self._acting.start()

    def join(self, seconds: float) -> None:
        if self._acting:
            self._acting.join(seconds)


def act() -> None:
    """Open the alert for each live run, and send what is due."""
    try:
        if done := look_at_control():
            log.warning("control_behind", **done)
        deliver()
    except Error as error:
        log.warning("database_away", error=str(error).strip())
    finally:
        connections.close_all()
