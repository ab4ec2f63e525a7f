"""Replies grow or shrink from update to update, and within groups it is the length that is paid for."""

from collections import defaultdict
from collections.abc import Sequence

from apps.rewards.hacking.rows import Finding, Row, Seen, by_step, newest
from apps.rewards.hacking.trends import tie, trend
from apps.runs.hacking import Hacking

TITLE = "Length drifts, and length is what is paid for"
FEWEST_PAIRS = 30  # replies of groups that have a spread at all


def look(seen: Seen, options: Hacking) -> Finding | None:
    """The mean length moves beyond chance by `length_change` of what it was, and within groups reward goes the same way.

    Within groups, because tasks that are harder have longer answers and lower rewards; `length_tie` is the least correlation.
    """
    curve = by_step(seen.rows, lambda row: row.tokens)
    move = trend(curve, options.sure)
    if move is None or move.first <= 0 or not (move.rises or move.falls) or abs(move.change) < options.length_change * move.first:
        return None
    pairs = _within_groups(seen.rows)
    tied = tie(pairs) if len(pairs) >= FEWEST_PAIRS else None
    if tied is None or tied * (1 if move.rises else -1) < options.length_tie:
        return None
    way = "longer" if move.rises else "shorter"
    words = (
        f"The mean length went from {move.first:.0f} to {move.last:.0f} tokens over {len(curve)} updates, and among the replies to "
        f"one task the {way} ones are paid more (correlation {tied:+.2f}). Look whether the {way} ones are better, or only {way}."
    )
    figures = {"length_first": move.first, "length_last": move.last, "correlation": tied}
    half = len(seen.rows) // 2
    edge = sorted(row.tokens for row in seen.rows)[half]
    far = [row for row in seen.rows if (row.tokens >= edge if move.rises else row.tokens <= edge)]
    return Finding(words, figures, {"tokens": curve}, newest([row.rollout for row in far]))


def _within_groups(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Length and reward of each reply, each less its group's mean."""
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row.machine is not None:
            groups[row.group].append(row)
    found = []
    for own in groups.values():
        length, reward = sum(row.tokens for row in own) / len(own), sum(row.machine for row in own) / len(own)
        found += [(row.tokens - length, row.machine - reward) for row in own if len(own) > 1]
    return found
