"""Time sharing of a worker's engines, so that no run waits long when runs outnumber engines.

A session with rollouts in flight is not closed, and a session that keeps opening groups always has
some. So once an unserved run has waited `ENGINE_TURN_SECONDS`, the session that was held longest
(and at least as long) opens no more groups. After its rollouts have ended, the waiting run gets its
place. Two runs on one vLLM engine take turns of at least that length.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from django.conf import settings

from apps.rollouts.models import Group
from apps.runs.admission import groups_allowed
from apps.runs.models import Run

if TYPE_CHECKING:
    from workers.explorer.session import RunSession

LOOK_SECONDS = 1.0


class TimeSharing:
    """Turns of runs at the engines of one explorer. Times are those of `time.monotonic()`."""

    def __init__(self) -> None:
        self.taken_at: dict[int, float] = {}
        self.waiting_since: dict[int, float] = {}
        self.over: set[int] = set()
        self.looked_at = -LOOK_SECONDS

    def begin(self, run_id: int, now: float) -> None:
        self.taken_at[run_id] = now
        self.waiting_since.pop(run_id, None)

    def end(self, run_id: int) -> None:
        self.taken_at.pop(run_id, None)
        self.over.discard(run_id)

    def is_over(self, run_id: int) -> bool:
        """Tell whether the run's session must open no more groups, so that it becomes free."""
        return run_id in self.over

    def look(
        self, sessions: "Mapping[int, RunSession]", running: Sequence[Run], now: float
    ) -> None:
        """End the turn of a session if runs wait.

        Call it with the runs for which there is no room.
        """
        if now - self.looked_at < LOOK_SECONDS:
            return
        self.looked_at = now
        starving = {run.pk for run in running if run.pk not in sessions and _starves(run)}
        self.waiting_since = {run_id: self.waiting_since.get(run_id, now) for run_id in starving}
        overdue_count = sum(
            now - since >= settings.ENGINE_TURN_SECONDS for since in self.waiting_since.values()
        )
        if overdue_count <= len(self.over):
            self.over = set(
                list(self.over)[:overdue_count]
            )  # another explorer serves the run now: continue
            return
        expired_ids = [
            run_id
            for run_id, at in self.taken_at.items()
            if now - at >= settings.ENGINE_TURN_SECONDS
        ]
        # A serving run's callers are waiting.
        may = [
            run_id
            for run_id in expired_ids
            if run_id not in self.over and not sessions[run_id].plan.serve
        ]
        if may:
            self.over.add(min(may, key=self.taken_at.__getitem__))


def _starves(run: Run) -> bool:
    """Tell whether the run has something to sample and nobody samples it."""
    sampling = run.groups.filter(state=Group.State.SAMPLING)
    if sampling.leased().exists():
        return False
    return groups_allowed(run.pace) > 0 or sampling.exists()
