"""Follow one run to its end, through restarts of any process."""

import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.runs.models import Run

POLL_S = 0.25


def until_ended(run: Run, is_up: Callable[[], bool], say: Callable[[Run], None]) -> bool:
    """Poll until the run has ended or is paused; call `say(run)` after each new step.

    Returns False if `is_up()` becomes false first. An unavailable database is waited for: the
    supervisor restarts it, or ends.
    """
    last_step = -1
    while is_up():
        try:
            run.refresh_from_db()
        except (DatabaseError, InterfaceError):
            connection.close()
            close_old_connections()
        else:
            if run.step != last_step:
                say(run)
                last_step = run.step
            if run.state in (*Run.ENDED, Run.State.PAUSED):
                return True
        time.sleep(POLL_S)
    return False
