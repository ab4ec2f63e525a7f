"""Who may do what next, decided from rows alone: the pure rules of synchronisation.

One number, `max_staleness`, makes a run synchronous (0), one step off (1) or asynchronous (n).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """A run's counters at one moment. Versions and groups count from the run's start.

    `step`: committed updates; `groups_again`: groups in them that were not the first time in one; `again_per_step`:
    how many such groups an update takes where enough are there.
    """

    published_version: int
    groups_opened: int
    groups_dropped: int
    groups_per_step: int
    sync_interval: int
    max_staleness: int
    planned_steps: int
    step: int = 0
    groups_again: int = 0
    again_per_step: int = 0


def groups_allowed(pace: Pace) -> int:
    """How many groups may be opened now: AReaL's bound (arXiv 2505.24298, eq. 3), capped by the run's plan.

    opened − dropped < (published + 1 + max_staleness) × sync_interval × groups_per_step: a group opened now may
    still be trained while the trainer's version is at most `max_staleness` above the one that samples it. (The
    bound counts versions, so an interval of several updates does not starve the loop between two publishes.)

    What updates take again need not be drawn. The next update may find nothing to take again, and has room for all its
    groups; the others are counted on to take their share.
    """
    steps_ahead = min((pace.published_version + 1 + pace.max_staleness) * pace.sync_interval, pace.planned_steps)
    later = max(0, steps_ahead - pace.step - 1)
    target = steps_ahead * pace.groups_per_step - pace.groups_again - later * pace.again_per_step
    return max(0, target - (pace.groups_opened - pace.groups_dropped))


def oldest_allowed(trainer_version: int, max_staleness: int) -> int:
    """The oldest weight version whose experiences the trainer may still take at this version."""
    return max(0, trainer_version - max_staleness)
