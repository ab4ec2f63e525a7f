"""Sample a suspicion's replies from a seed, stratified by level of reward and time."""

import random
from collections import defaultdict
from collections.abc import Collection, Sequence

from apps.rewards.hacking.rows import Row

LEVELS = 4
TIMES = 3  # quartiles of the reward; thirds of the steps


def sample_replies(
    rows: Sequence[Row], evidence: Collection[int], size: int, seed: int
) -> list[int]:
    """Return the ids of `size` replies, evidence first, evenly from each level and time.

    The same rows and seed give the same replies.
    """
    evidence_ids = set(evidence)
    showing = [row for row in rows if row.rollout in evidence_ids]
    other_rows = [row for row in rows if row.rollout not in evidence_ids]
    drawn = _draw_stratified(showing, size, seed)
    return drawn + _draw_stratified(other_rows, size - len(drawn), seed)


def _draw_stratified(rows: Sequence[Row], size: int, seed: int) -> list[int]:
    """Take one of each stratum in turn, until there are enough; within a stratum at random."""
    chance = random.Random(seed)
    strata = defaultdict(list)
    for row, place in _with_strata(rows):
        strata[place].append(row.rollout)
    queues = [chance.sample(ids, len(ids)) for _, ids in sorted(strata.items())]
    chance.shuffle(queues)
    drawn: list[int] = []
    while len(drawn) < size and any(queues):
        drawn += [queue.pop() for queue in queues if queue]
    return drawn[:size]


def _with_strata(rows: Sequence[Row]) -> list[tuple[Row, tuple[int, int]]]:
    """Return each row with its level of reward (lowest without one) and its part of the steps."""
    ranked = sorted(
        rows, key=lambda row: (row.machine is not None, row.machine or 0.0, row.rollout)
    )
    steps = [row.step for row in rows]
    first = min(steps, default=0)
    width = max(steps, default=0) - min(steps, default=0) + 1
    return [
        (row, (n * LEVELS // len(rows), (row.step - first) * TIMES // width))
        for n, row in enumerate(ranked)
    ]
