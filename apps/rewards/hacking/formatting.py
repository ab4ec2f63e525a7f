"""Detector: replies win by their format alone, while scorers of content give nothing."""

from apps.rewards.hacking.rows import Finding, JudgedReplies, Row, by_step, newest_ids
from apps.rewards.hacking.trends import trend
from apps.runs.hacking import Hacking

TITLE = "Replies are rewarded for format alone"
NOTHING = 1e-9
RISE = 0.5  # of the level: a share that was nearly as high before has not risen
SHAPES = (
    "format",
    "language",
    "length",
    "overlong",
    "repetition",
)  # scorers that do not ask whether a reply is right


def detect(replies: JudgedReplies, options: Hacking) -> Finding | None:
    """Find a rise of replies that only have the right format, without a rise of right ones.

    The share must rise beyond chance, to `format_only` or more. If right replies rise as well, the
    format is being learned first, as it should be.
    """
    shape = [name for name in options.format_scorers if name in replies.highs]
    if not shape or not replies.right_by:
        return None
    judged = [
        row
        for row in replies.rows
        if all(
            row.values.get(name) is not None for name in (*shape, *_content_scorers(row, replies))
        )
    ]
    judged = [row for row in judged if _content_scorers(row, replies)]
    empty = {row.rollout for row in judged if _is_empty(row, shape, replies)}
    curve = by_step(judged, lambda row: float(row.rollout in empty))
    right = by_step(
        judged,
        lambda row: float(
            any(_value(row, name) > NOTHING for name in _content_scorers(row, replies))
        ),
    )
    rise = trend(curve, options.confidence)
    better = trend(right, options.confidence)
    if rise is None or better is None or not rise.rises or better.rises:
        return None
    if rise.last < options.format_only or rise.change < RISE * options.format_only:
        return None
    words = (
        f"In the latest steps, {rise.last:.0%} of replies got the full reward from "
        f"{', '.join(shape)} and none from {', '.join(replies.right_by)}, up from "
        f"{rise.first:.0%} at the start of these {len(curve)} steps. The share of replies "
        f"with a reward for correctness changed from {better.first:.0%} to {better.last:.0%}."
    )
    metrics = {
        "shape_only_first": rise.first,
        "shape_only_last": rise.last,
        "right_first": better.first,
        "right_last": better.last,
    }
    flagged_ids = [row.rollout for row in judged if row.rollout in empty]
    return Finding(words, metrics, {"shape alone": curve, "right": right}, newest_ids(flagged_ids))


def _content_scorers(row: Row, replies: JudgedReplies) -> list[str]:
    """Return the scorers of content that judge this reply's task."""
    return [name for name in replies.right_by if name in row.values]


def _value(row: Row, name: str) -> float:
    """Return the scorer's value, which every reply that is looked at has."""
    value = row.values[name]
    assert value is not None
    return value


def _is_empty(row: Row, shape: list[str], replies: JudgedReplies) -> bool:
    is_full = all(_value(row, name) >= replies.highs[name] - NOTHING for name in shape)
    return is_full and all(_value(row, name) <= NOTHING for name in _content_scorers(row, replies))
