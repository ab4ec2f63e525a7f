"""The demo goes on: when its run completes, the next one begins, and old ones are cleared away."""

import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.accounts.models import Project
from apps.runs.models import Run
from rftweb.demonstration.clearing import clear_old
from rftweb.demonstration.furnishing import newest_run, runs_named

LOOK_S = 1.0


def keep_going(
    project: Project,
    name: str,
    steps: int | None,
    is_up: Callable[[], bool],
    say: Callable[[str], None],
) -> None:
    """Begin the next run whenever the newest has completed; return when `is_up()` ends.

    A database that is away is waited for: the supervisor brings it back, or ends.
    """
    while is_up():
        try:
            go_on(project, name, steps, say)
        except (DatabaseError, InterfaceError):
            connection.close()
            close_old_connections()
        time.sleep(LOOK_S)


def go_on(project: Project, name: str, steps: int | None, say: Callable[[str], None]) -> Run | None:
    """Begin the next run if the newest has completed. What people stopped or paused stays so."""
    runs = runs_named(project, name)
    if not runs or runs[0].state != Run.State.COMPLETED:
        return None
    run = newest_run(project, name, steps)
    run.start(reason="the demo goes on")
    say(f"{runs[0].slug} has completed; {run.slug} begins")
    for gone in clear_old(runs):
        say(f"{gone} is deleted: it has ended, and nobody rated or used it")
    return run
