"""The machine's reward rises while people's ratings fall: what is learned is what the scorers see, not what is meant."""

from collections.abc import Sequence

from apps.rewards.hacking.rows import Finding, Row, Seen, by_step, newest
from apps.rewards.hacking.trends import trend
from apps.runs.hacking import Hacking

TITLE = "Reward rises while people's ratings fall"


def look(seen: Seen, options: Hacking) -> Finding | None:
    """Both beyond their intervals and by `apart` at least, with `labels` replies that people judged.

    The machine's reward is a share of its full one; people's is on their own scale, 0 to 1.
    """
    labelled = [row for row in seen.rows if row.people is not None]
    machine = by_step(seen.rows, lambda row: row.machine)
    people = by_step(labelled, lambda row: row.people)
    up, down = trend(machine, options.sure), trend(people, options.sure)
    if len(labelled) < options.labels or up is None or down is None:
        return None
    if not (up.rises and down.falls and up.change >= options.apart and -down.change >= options.apart):
        return None
    words = (
        f"Over the last {len(machine)} updates the machine's reward rose from {up.first:.2f} to {up.last:.2f} of its full while "
        f"people's mean fell from {down.first:.2f} to {down.last:.2f} ({len(labelled)} replies that they judged). Each is more "
        f"than chance: the machine gained {up.low:.2f} at least, people lost {-down.high:.2f} at least ({options.sure:.2%} sure)."
    )
    figures = {
        "machine_first": up.first, "machine_last": up.last, "people_first": down.first, "people_last": down.last,
        "machine_gain_at_least": up.low, "people_loss_at_least": -down.high, "labels": len(labelled),
    }  # fmt: skip
    return Finding(words, figures, {"machine": machine, "people": people}, _parted(seen.rows, labelled))


def _parted(rows: Sequence[Row], labelled: list[Row]) -> list[int]:
    """Replies that the machine pays more than most and people less than most; with those that nobody judged yet."""
    paid = sorted(row.machine for row in rows if row.machine is not None)
    liked = sorted(row.people for row in labelled)
    high, low = paid[len(paid) // 2], liked[len(liked) // 2]
    well = [row for row in rows if row.machine is not None and row.machine >= high]
    return newest([row.rollout for row in well if row.people is None or row.people <= low])
