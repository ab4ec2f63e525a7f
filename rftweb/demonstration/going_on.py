"""Keep the demo going: when its run completes, start the next one and delete old ones."""

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
    """Start the next run whenever the newest has completed, until `is_up()` becomes false.

    An unavailable database is waited for: the supervisor restarts it, or ends.
    """
    while is_up():
        try:
            go_on(project, name, steps, say)
        except (DatabaseError, InterfaceError):
            connection.close()
            close_old_connections()
        time.sleep(LOOK_S)


def go_on(project: Project, name: str, steps: int | None, say: Callable[[str], None]) -> Run | None:
    """Start the next run if the newest has completed; stopped or paused runs stay so."""
    runs = runs_named(project, name)
    if not runs or runs[0].state != Run.State.COMPLETED:
        return None
    run = newest_run(project, name, steps)
    run.start(reason="the demo goes on")
    say(f"{runs[0].slug} has completed; {run.slug} begins")
    for gone in clear_old(runs):
        say(f"{gone} is deleted: it has ended, and nobody rated or used it")
    return run
