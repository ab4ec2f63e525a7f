"""How many groups stood where over time, drawn as bands on top of each other: from the times that groups and updates bear."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils import timezone

from apps.dashboard.buffer_window import Window
from apps.rollouts.models import Group

MOMENTS = 160
WIDTH, HEIGHT = 640, 160
BANDS = (
    ("training", "in an update"),
    ("ready", "ready for the trainer"),
    ("judging", "being judged"),
    ("sampling", "being sampled"),
)
Span = tuple[datetime, datetime | None]


@dataclass(frozen=True)
class Band:
    """`points`: as SVG's polygon takes them; `last` and `most`: groups, at the right edge and at the highest place."""

    key: str
    title: str
    points: str
    last: int
    most: int


@dataclass(frozen=True)
class Occupancy:
    """`most`: groups, of all bands together, at the upper edge."""

    bands: Sequence[Band]
    since: datetime
    until: datetime
    most: int
    width: int = WIDTH
    height: int = HEIGHT


def occupancy_of(window: Window) -> Occupancy | None:
    """None where no time has passed. It begins when all that stood somewhere then is in the window.

    What was dropped after it was admitted is not counted as ready: when that happened is on no row.
    """
    spans = [span for group in window.groups for span in _spans(window, group)]
    if not spans:
        return None
    ends = [end for _, (_, end) in spans if end]
    is_over = window.run.state in window.run.ENDED
    until = max([*ends, *(start for _, (start, _) in spans)]) if is_over else timezone.now()
    since = min(start for _, (start, _) in spans) if window.is_whole else min([*_left(window), until])
    if since >= until:
        return None
    moments = [since + (until - since) * n / (MOMENTS - 1) for n in range(MOMENTS)]
    counts = {key: _counted([span for name, span in spans if name == key], moments) for key, _ in BANDS}
    most = max(map(sum, zip(*counts.values(), strict=True)))
    return Occupancy(list(_bands(counts, most)), since, until, most) if most else None


def _spans(window: Window, group: Group) -> list[tuple[str, Span]]:
    """Where the group stood, from when until when; None: it stands there still."""
    taken = window.taken.get(group.pk)
    spans = [("sampling", (group.opened_at, group.sampled_at or group.closed_at))]
    if group.sampled_at:
        spans.append(("judging", (group.sampled_at, group.closed_at)))
    if taken:
        spans.append(("ready", (group.closed_at or taken.planned_at, taken.planned_at)))
        spans.append(("training", (taken.planned_at, taken.committed_at)))
    elif group.closed_at and group.pk in window.ready:
        spans.append(("ready", (group.closed_at, None)))
    return spans


def _left(window: Window) -> list[datetime]:
    """When groups left for good: before the first of these, older ones may have stood there as well."""
    left = [taken.committed_at for taken in window.taken.values() if taken.committed_at]
    return left + [group.closed_at for group in window.groups if group.state == Group.State.DROPPED and group.closed_at]


def _counted(spans: Sequence[Span], moments: Sequence[datetime]) -> list[int]:
    starts = sorted(start for start, _ in spans)
    ends = sorted(end for _, end in spans if end)
    return [bisect_right(starts, moment) - bisect_right(ends, moment) for moment in moments]


def _bands(counts: dict[str, list[int]], most: int) -> list[Band]:
    below, bands = [0] * MOMENTS, []
    for key, title in BANDS:
        above = [low + count for low, count in zip(below, counts[key], strict=True)]
        edge = [*_edge(above, most), *reversed(_edge(below, most))]
        bands.append(Band(key, title, " ".join(edge), counts[key][-1], max(counts[key])))
        below = above
    return bands


def _edge(heights: Sequence[int], most: int) -> list[str]:
    """Level from one moment to the next, then up or down: each count holds until another is known."""
    points = []
    for height, run in groupby(range(MOMENTS), key=heights.__getitem__):
        alike = list(run)
        points += [(alike[0], height), (alike[-1] + 1, height)]
    return [f"{place * WIDTH / MOMENTS:.1f},{HEIGHT - height / most * HEIGHT:.1f}" for place, height in points]
