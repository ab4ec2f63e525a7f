"""Which replies of a suspicion people look at: some of each level of reward and of each part of the time, drawn from a seed."""

import random
from collections import defaultdict
from collections.abc import Collection, Sequence

from apps.rewards.hacking.rows import Row

LEVELS, TIMES = 4, 3  # quartiles of the machine's reward; thirds of the updates


def sample(rows: Sequence[Row], evidence: Collection[int], size: int, seed: int) -> list[int]:
    """Ids of `size` replies, of those that are evidence as long as there are any, evenly from each level and time.

    The same rows and seed give the same replies.
    """
    known = set(evidence)
    showing = [row for row in rows if row.rollout in known]
    others = [row for row in rows if row.rollout not in known]
    drawn = _drawn(showing, size, seed)
    return drawn + _drawn(others, size - len(drawn), seed)


def _drawn(rows: Sequence[Row], size: int, seed: int) -> list[int]:
    """One of each stratum in turn, until there are enough; within a stratum by chance."""
    chance, strata = random.Random(seed), defaultdict(list)
    for row, place in _placed(rows):
        strata[place].append(row.rollout)
    queues = [chance.sample(ids, len(ids)) for _, ids in sorted(strata.items())]
    chance.shuffle(queues)
    found: list[int] = []
    while len(found) < size and any(queues):
        found += [queue.pop() for queue in queues if queue]
    return found[:size]


def _placed(rows: Sequence[Row]) -> list[tuple[Row, tuple[int, int]]]:
    """Each row with its level of reward (no reward is the lowest) and its part of the updates."""
    ranked = sorted(rows, key=lambda row: (row.machine is not None, row.machine or 0.0, row.rollout))
    steps = [row.step for row in rows]
    first, width = min(steps, default=0), max(steps, default=0) - min(steps, default=0) + 1
    return [(row, (n * LEVELS // len(rows), (row.step - first) * TIMES // width)) for n, row in enumerate(ranked)]
