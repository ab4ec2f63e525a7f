"""Whose turn at a worker's engines is over: where they are fewer than runs, nobody is left without one for long.

A seat with something in flight is not given up, and one that goes on opening groups always has something. So where a run that
nobody serves has waited `ENGINE_TURN_SECONDS`, the seat that was held longest, and at least as long, opens no more; what is in
flight is finished, and then the seat goes to the run that waits. Two runs at one vLLM take turns of at least that length.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models.functions import Now

from apps.rollouts.models import Group
from apps.runs.admission import groups_allowed
from apps.runs.models import Run

if TYPE_CHECKING:
    from workers.explorer.seat import Seat

LOOK_SECONDS = 1.0


class Turns:
    """Of one explorer. Times are `time.monotonic()`."""

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
        """Whether the run's seat here is to open no more, so that it becomes free."""
        return run_id in self.over

    def look(self, seats: "Mapping[int, Seat]", running: Sequence[Run], now: float) -> None:
        """Call it with the runs for which there is no room: may end the turn of a seat."""
        if now - self.looked_at < LOOK_SECONDS:
            return
        self.looked_at = now
        starving = {run.pk for run in running if run.pk not in seats and _starves(run)}
        self.waiting_since = {run_id: self.waiting_since.get(run_id, now) for run_id in starving}
        due = sum(now - since >= settings.ENGINE_TURN_SECONDS for since in self.waiting_since.values())
        if due <= len(self.over):
            self.over = set(list(self.over)[:due])  # somebody else serves it by now: go on
            return
        held = [run_id for run_id, at in self.taken_at.items() if now - at >= settings.ENGINE_TURN_SECONDS]
        may = [run_id for run_id in held if run_id not in self.over and not seats[run_id].plan.serve]  # its callers are waiting
        if may:
            self.over.add(min(may, key=self.taken_at.__getitem__))


def _starves(run: Run) -> bool:
    """Whether there is something to sample and nobody does it."""
    sampling = run.groups.filter(state=Group.State.SAMPLING)
    if sampling.filter(lease_until__gte=Now()).exists():
        return False
    return groups_allowed(run.pace) > 0 or sampling.exists()
