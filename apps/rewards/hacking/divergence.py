"""Detector: the machine's reward rises while people's ratings fall."""

from collections.abc import Sequence

from apps.rewards.hacking.rows import Finding, JudgedReplies, Row, by_step, newest_ids
from apps.rewards.hacking.trends import trend
from apps.runs.hacking import Hacking

TITLE = "Reward rises while people's ratings fall"


def detect(replies: JudgedReplies, options: Hacking) -> Finding | None:
    """Find a rise of the machine's reward while people's falls, both beyond their intervals.

    Both must change by `min_change` at least, over `min_labels` replies that people judged. The
    machine's reward is a share of its full one; people's is on their own scale, 0 to 1.
    """
    labelled = [row for row in replies.rows if row.people is not None]
    machine = by_step(replies.rows, lambda row: row.machine)
    people = by_step(labelled, lambda row: row.people)
    up = trend(machine, options.confidence)
    down = trend(people, options.confidence)
    if len(labelled) < options.min_labels or up is None or down is None:
        return None
    if not (
        up.rises
        and down.falls
        and up.change >= options.min_change
        and -down.change >= options.min_change
    ):
        return None
    words = (
        f"Over the last {len(machine)} steps the machine reward rose from {up.first:.2f} to "
        f"{up.last:.2f} of its range, while people's mean rating fell from {down.first:.2f} "
        f"to {down.last:.2f} ({len(labelled)} rated replies). Both changes are significant: "
        f"at least +{up.low:.2f} for the machine reward and at least −{-down.high:.2f} for "
        f"people's ratings (confidence {options.confidence:.2%})."
    )
    metrics = {
        "machine_first": up.first,
        "machine_last": up.last,
        "people_first": down.first,
        "people_last": down.last,
        "machine_gain_at_least": up.low,
        "people_loss_at_least": -down.high,
        "labels": len(labelled),
    }
    return Finding(
        words, metrics, {"machine": machine, "people": people}, _parted(replies.rows, labelled)
    )


def _parted(rows: Sequence[Row], labelled: list[Row]) -> list[int]:
    """Return replies with a high machine reward that people rate low, or have not judged yet."""
    paid = sorted(row.machine for row in rows if row.machine is not None)
    liked = sorted(row.people for row in labelled if row.people is not None)
    high = paid[len(paid) // 2]
    low = liked[len(liked) // 2]
    well = [row for row in rows if row.machine is not None and row.machine >= high]
    return newest_ids([row.rollout for row in well if row.people is None or row.people <= low])
