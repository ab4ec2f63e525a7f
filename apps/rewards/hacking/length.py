"""Detector: replies become longer or shorter from step to step, and length is rewarded."""

from collections import defaultdict
from collections.abc import Sequence

from apps.rewards.hacking.rows import Finding, JudgedReplies, Row, by_step, newest_ids
from apps.rewards.hacking.trends import tie, trend
from apps.runs.hacking import Hacking

TITLE = "Length changes, and length is rewarded"
MIN_PAIRS = 30  # replies of groups that have a spread at all


def detect(replies: JudgedReplies, options: Hacking) -> Finding | None:
    """Find a change of the mean length that goes with higher rewards within groups.

    It must be beyond chance and at least `length_change` of the first mean. Groups are compared
    within themselves, because harder tasks have longer answers and lower rewards;
    `length_correlation` is the minimum.
    """
    curve = by_step(replies.rows, lambda row: row.tokens)
    move = trend(curve, options.confidence)
    if (
        move is None
        or move.first <= 0
        or not (move.rises or move.falls)
        or abs(move.change) < options.length_change * move.first
    ):
        return None
    pairs = _within_groups(replies.rows)
    correlation = tie(pairs) if len(pairs) >= MIN_PAIRS else None
    if correlation is None or correlation * (1 if move.rises else -1) < options.length_correlation:
        return None
    way = "longer" if move.rises else "shorter"
    words = (
        f"The mean length changed from {move.first:.0f} to {move.last:.0f} tokens over "
        f"{len(curve)} steps, and among the replies to one task the {way} ones get more "
        f"reward (correlation {correlation:+.2f}). Check whether the {way} replies are really "
        "better."
    )
    metrics = {"length_first": move.first, "length_last": move.last, "correlation": correlation}
    half = len(replies.rows) // 2
    edge = sorted(row.tokens for row in replies.rows)[half]
    far = [
        row for row in replies.rows if (row.tokens >= edge if move.rises else row.tokens <= edge)
    ]
    return Finding(words, metrics, {"tokens": curve}, newest_ids([row.rollout for row in far]))


def _within_groups(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Return length and reward of each reply, each less its group's mean."""
    groups: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row.machine is not None:
            groups[row.group].append((row.tokens, row.machine))
    deviations = []
    for group in groups.values():
        length = sum(tokens for tokens, _ in group) / len(group)
        reward = sum(machine for _, machine in group) / len(group)
        deviations += [
            (tokens - length, machine - reward) for tokens, machine in group if len(group) > 1
        ]
    return deviations
