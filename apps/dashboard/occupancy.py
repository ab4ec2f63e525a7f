"""The number of groups in each stage over time, drawn as stacked bands."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils import timezone

from apps.dashboard.buffer_window import Window
from apps.rollouts.models import Group

MOMENTS = 160
WIDTH = 640
HEIGHT = 160
BANDS = (
    ("training", "in a step"),
    ("ready", "ready for training"),
    ("judging", "being scored or rated"),
    ("sampling", "being sampled"),
)
Span = tuple[datetime, datetime | None]


@dataclass(frozen=True)
class Band:
    """One stage; `points` are those of an SVG polygon.

    `last` and `highest` are the group counts at the right edge and at the peak.
    """

    key: str
    title: str
    points: str
    last: int
    highest: int


@dataclass(frozen=True)
class Occupancy:
    """The drawing; `highest` is the number of groups of all bands at the upper edge."""

    bands: Sequence[Band]
    since: datetime
    until: datetime
    highest: int
    width: int = WIDTH
    height: int = HEIGHT


def draw_occupancy(window: Window) -> Occupancy | None:
    """Return the drawing, or None if no time has passed.

    It begins when every group of that moment is in the window. Groups that were dropped after being
    admitted do not count as ready: the time of their drop is not recorded.
    """
    spans = [span for group in window.groups for span in _spans(window, group)]
    if not spans:
        return None
    ends = [end for _, (_, end) in spans if end]
    is_over = window.run.state in window.run.ENDED
    until = max([*ends, *(start for _, (start, _) in spans)]) if is_over else timezone.now()
    since = (
        min(start for _, (start, _) in spans)
        if window.is_whole
        else min([*_leaving_times(window), until])
    )
    if since >= until:
        return None
    moments = [since + (until - since) * n / (MOMENTS - 1) for n in range(MOMENTS)]
    counts = {
        key: _count_open([span for name, span in spans if name == key], moments) for key, _ in BANDS
    }
    highest = max(map(sum, zip(*counts.values(), strict=True)))
    return Occupancy(list(_bands(counts, highest)), since, until, highest) if highest else None


def _spans(window: Window, group: Group) -> list[tuple[str, Span]]:
    """Return the stages of a group with begin and end; end None means it is still there."""
    use = window.use_by_group.get(group.pk)
    spans = [("sampling", (group.opened_at, group.sampled_at or group.closed_at))]
    if group.sampled_at:
        spans.append(("judging", (group.sampled_at, group.closed_at)))
    if use:
        spans.append(("ready", (group.closed_at or use.planned_at, use.planned_at)))
        spans.append(("training", (use.planned_at, use.committed_at)))
    elif group.closed_at and group.pk in window.ready:
        spans.append(("ready", (group.closed_at, None)))
    return spans


def _leaving_times(window: Window) -> list[datetime]:
    """Return the times at which groups left for good.

    Before the first of these, older groups outside of the window may have been present.
    """
    commit_times = [use.committed_at for use in window.use_by_group.values() if use.committed_at]
    return commit_times + [
        group.closed_at
        for group in window.groups
        if group.state == Group.State.DROPPED and group.closed_at
    ]


def _count_open(spans: Sequence[Span], moments: Sequence[datetime]) -> list[int]:
    starts = sorted(start for start, _ in spans)
    ends = sorted(end for _, end in spans if end)
    return [bisect_right(starts, moment) - bisect_right(ends, moment) for moment in moments]


def _bands(counts: dict[str, list[int]], highest: int) -> list[Band]:
    below = [0] * MOMENTS
    bands = []
    for key, title in BANDS:
        above = [low + count for low, count in zip(below, counts[key], strict=True)]
        edge = [*_edge(above, highest), *reversed(_edge(below, highest))]
        bands.append(Band(key, title, " ".join(edge), counts[key][-1], max(counts[key])))
        below = above
    return bands


def _edge(heights: Sequence[int], highest: int) -> list[str]:
    """Return the points of a step function: each count holds until the next is known."""
    points = []
    for height, run in groupby(range(MOMENTS), key=heights.__getitem__):
        alike = list(run)
        points += [(alike[0], height), (alike[-1] + 1, height)]
    return [
        f"{place * WIDTH / MOMENTS:.1f},{HEIGHT - height / highest * HEIGHT:.1f}"
        for place, height in points
    ]
