"""Watching one run to its end, whatever dies and comes back meanwhile."""

import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.runs.models import Run

POLL_S = 0.25


def until_ended(run: Run, is_up: Callable[[], bool], say: Callable[[Run], None]) -> bool:
    """Look until the run has ended or is paused; `say(run)` after each new step. False when `is_up()` ends first.

    A database that is away is waited for: the supervisor brings it back, or ends.
    """
    shown = -1
    while is_up():
        try:
            run.refresh_from_db()
        except (DatabaseError, InterfaceError):
            connection.close()
            close_old_connections()
        else:
            if run.step != shown:
                say(run)
                shown = run.step
            if run.state in (*Run.ENDED, Run.State.PAUSED):
                return True
        time.sleep(POLL_S)
    return False
