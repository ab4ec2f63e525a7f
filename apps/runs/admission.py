"""Pure rules of synchronisation: how many groups may be opened and which steps must wait.

One number, `max_staleness`, makes a run synchronous (0), one step off (1) or asynchronous (n).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """A run's counters at one moment. Versions and groups count from the run's start.

    `step`: committed steps; `groups_again`: groups in them that were not the first time in one;
    `again_per_step`: how many such groups a step takes where enough are there. `over_rollout`:
    most groups beyond those of the next version.
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
    over_rollout: int | None = None


def pace_of_evaluation(tasks: int, groups_opened: int) -> Pace:
    """Return the pace of an evaluation, which samples each of its tasks once.

    A dropped group is not sampled again, and there is one version to wait for.
    """
    return Pace(
        published_version=0,
        groups_opened=groups_opened,
        groups_dropped=0,
        groups_per_step=tasks,
        sync_interval=1,
        max_staleness=0,
        planned_steps=1,
    )


def groups_allowed(pace: Pace) -> int:
    """Return how many groups may be opened now: AReaL's bound, capped by the run's plan.

    The bound (arXiv 2505.24298, eq. 3) is opened − dropped < (published + 1 + max_staleness) ×
    sync_interval × groups_per_step: a group opened now may still be trained while the trainer's
    version is at most `max_staleness` above the one that samples it. (The bound counts versions, so
    an interval of several steps does not starve the loop between two publishes.)

    Groups that steps take again need not be sampled. The next step may find nothing to take
    again, and has room for all its groups; the later ones are counted on to take their share.

    With over-rollout, only groups that lead to the next version may be opened, plus that many more,
    still within the bound: the steps take the complete groups first, and the rest goes on.
    """
    target = _groups_until(pace, pace.published_version + 1 + pace.max_staleness)
    if pace.over_rollout is not None:
        target = min(target, _groups_until(pace, pace.published_version + 1) + pace.over_rollout)
    return max(0, target - (pace.groups_opened - pace.groups_dropped))


def _groups_until(pace: Pace, version: int) -> int:
    """Return how many groups are sampled for all steps up to the one that makes this version."""
    steps = min(version * pace.sync_interval, pace.planned_steps)
    later = max(0, steps - pace.step - 1)
    return steps * pace.groups_per_step - pace.groups_again - later * pace.again_per_step


def groups_to_wait_for(pace: Pace, ready: Sequence[int], open_: Sequence[int]) -> int:
    """Return how many groups the next step must wait for, so that none becomes too old to train.

    0 means that the step may take the oldest groups that are ready. `ready` and `open_` are the
    versions with which untrained groups began: complete, and under way. A group may be taken until
    the trainer's version is its own + max_staleness, so by each version there must be enough
    updates for the groups that are too old after it. If all steps but one are too few, the next
    step is needed: it takes the groups for which the others have no room. That is always possible
    while at most max_staleness × sync_interval × groups_per_step groups are left over at a publish.
    """
    now = pace.step // pace.sync_interval
    wait = 0
    for last in range(now, now + pace.max_staleness + 1):
        trainable = range(now - pace.max_staleness, last - pace.max_staleness + 1)
        complete = sum(version in trainable for version in ready)
        under_way = sum(version in trainable for version in open_)
        later = (
            (last + 1) * pace.sync_interval - pace.step - 1
        )  # steps that may still take them after the next one
        needed = min(complete + under_way - later * pace.groups_per_step, pace.groups_per_step)
        wait = max(wait, needed - complete)
    return wait


def oldest_allowed(trainer_version: int, max_staleness: int) -> int:
    """Return the oldest version whose experiences the trainer may still take at this version."""
    return max(0, trainer_version - max_staleness)
