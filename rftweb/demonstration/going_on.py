"""Keep the demo going: add the runs that wait, and start the next run when one completes.

Old runs are deleted.
"""

import time
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from apps.accounts.models import Project
from apps.runs.models import Run
from rftweb.demonstration.clearing import clear_old
from rftweb.demonstration.furnishing import furnish_demonstration, newest_run, runs_named
from rftweb.demonstration.policies import LOG, Builders, NotBuilt

LOOK_S = 1.0


class LaterRuns:
    """Runs that wait to be started, whose policies are built while another run trains."""

    def __init__(self, builders: Builders) -> None:
        self.builders = builders
        self.is_over = False

    def add(self, project: Project, say: Callable[[str], None]) -> None:
        """Create the runs if all policies are built; say so if one could not be built."""
        if self.is_over or not self.builders.have_ended():
            return
        try:
            folders = self.builders.folders()
        except NotBuilt as error:
            say(
                f"{error}; see {settings.VAR / 'log' / LOG}. The next start of the demo tries again"
            )
        else:
            furnish_demonstration(folders)
            for name in folders:
                newest_run(project, name, None)
        self.is_over = True


def keep_going(
    project: Project,
    name: str,
    steps: int | None,
    is_up: Callable[[], bool],
    say: Callable[[str], None],
    later: LaterRuns,
) -> None:
    """Start the next run whenever the newest has completed, until `is_up()` becomes false.

    Add the `later` runs as soon as their policies are built. An unavailable database is waited
    for: the supervisor restarts it, or ends.
    """
    while is_up():
        try:
            later.add(project, say)
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
    for slug in clear_old(runs):
        say(f"{slug} is deleted: it has ended, and nobody rated or used it")
    return run
