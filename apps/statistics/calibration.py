"""Agreement of a scorer with people on the same replies: accuracy, order, biases, reliability.

Both are on scales from 0 (least) to 1 (most). A label is good above the middle and bad below it. A
label exactly at the middle is neither, and is left out of measures that need one of the two. A
scorer's value at its middle counts half as each, so that a scorer that never decides is right half
the time and agrees no more than chance. Replies of one group are correlated, so intervals resample
groups, not replies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from apps.statistics.agreement import kappa_of_table
from apps.statistics.intervals import MIN_DEFINED_SHARE, wilson

MIDDLE = 0.5
MIN_LABELS = 10  # the fewest labels, pairs or votes for a metric
BINS = 10  # equally wide bins of the scorer's range
DRAWS = 400


@dataclass(frozen=True)
class JudgedReply:
    """A reply that both have judged.

    `length` is in tokens, 0 if it is unknown. `votes`, for a scorer that compares several answers
    at once, has (position from 1, how many were shown, the vote) for each comparison.
    """

    rollout: int
    group: int
    scorer: float
    people: float
    length: int = 0
    votes: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95 % interval, from `of` labels, pairs or votes.

    `value` is None if it is undefined, and `why` says so.
    """

    value: float | None
    low: float | None
    high: float | None
    of: int
    why: str = ""


@dataclass(frozen=True)
class Bin:
    """Replies with a scorer's value from `low` up to `high`: their number and both mean values."""

    low: float
    high: float
    count: int
    scorer: float
    people: float


@dataclass(frozen=True)
class Calibration:
    """All metrics of one scorer.

    - `accuracy`: share of labels on which it agrees; `kappa`: the same beyond chance (Cohen).
    - `order`: of pairs of a group that people ordered, the share it orders alike, its ties counting
      half; `rank`: Spearman's correlation.
    - `shift`: its mean above people's; `longer`: how much more it gives the longer half above
      people than the shorter half; `doubling`: how much more with each doubling of the length;
      `length`: correlation of the length's logarithm and its value above people's.
    - `earlier`: how much more it gives what it was shown in the earlier half; `first`: of two, how
      often it took the first.
    - `error`: how far bins lie from people's mean, weighted by their replies (expected calibration
      error).
    """

    labels: int
    undecided: int
    accuracy: Estimate
    kappa: Estimate
    order: Estimate
    rank: Estimate
    shift: Estimate
    longer: Estimate
    doubling: Estimate
    length: Estimate
    earlier: Estimate
    first: Estimate
    error: Estimate
    bins: tuple[Bin, ...]


def scale_to_range(value: float, low: float, high: float) -> float:
    """Return a value's position in its range, 0 to 1; values outside are clipped."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0


def compute_calibration(rows: Sequence[JudgedReply]) -> Calibration:
    """Return every metric of these replies. The same rows always give the same intervals."""
    labels = _Labels(rows)
    decided = labels.where(labels.people != MIDDLE)
    with_length = labels.where(labels.length > 0)
    return Calibration(
        len(labels),
        len(labels) - len(decided),
        _accuracy(decided),
        _kappa(decided),
        _order(labels),
        _rank(labels),
        _shift(labels),
        _longer(with_length),
        _doubling(with_length),
        _length(with_length),
        _earlier(labels),
        _first(labels),
        *_reliability(labels),
    )


class _Labels:
    """The rows as arrays, (rows,)."""

    def __init__(self, rows: Sequence[JudgedReply]) -> None:
        self.rows = rows
        self.scorer = np.array([row.scorer for row in rows], float)
        self.people = np.array([row.people for row in rows], float)
        self.length = np.array([row.length for row in rows], float)
        self.group = (
            np.unique([row.group for row in rows], return_inverse=True)[1]
            if rows
            else np.zeros(0, int)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: np.ndarray) -> "_Labels":
        return _Labels([row for row, is_chosen in zip(self.rows, chosen, strict=True) if is_chosen])

    @property
    def above(self) -> np.ndarray:
        """Return the scorer's values above people's."""
        return self.scorer - self.people

    @property
    def says(self) -> np.ndarray:
        """Return whether the scorer calls each good: 1, 0, or ½ at its middle."""
        return (1 + np.sign(self.scorer - MIDDLE)) / 2

    @cached_property
    def drawn(self) -> np.ndarray:
        """Return how often each group occurs in each bootstrap sample, (draws, groups)."""
        groups = int(self.group.max()) + 1
        group_draws = (
            np.random.default_rng(0).integers(groups, size=(DRAWS, groups))
            + groups * np.arange(DRAWS)[:, None]
        )
        return (
            np.bincount(group_draws.ravel(), minlength=DRAWS * groups)
            .reshape(DRAWS, groups)
            .astype(float)
        )

    def estimate(
        self,
        parts: np.ndarray,
        metric: Callable[[np.ndarray], float | None],
        of: int,
        why: str,
        needs: str = "labels",
    ) -> Estimate:
        """Return a metric computed from sums; `parts` (rows, k) are each row's contributions.

        The interval resamples groups.
        """
        if of < MIN_LABELS:
            return Estimate(None, None, None, of, f"needs {MIN_LABELS} {needs}, has {of}")
        value = metric(parts.sum(0))
        if value is None:
            return Estimate(None, None, None, of, why)
        sums = np.zeros((int(self.group.max()) + 1, parts.shape[1]))
        np.add.at(sums, self.group, parts)
        return Estimate(value, *(self._bounds(sums, metric) if len(sums) > 1 else (None, None)), of)

    def _bounds(
        self, sums: np.ndarray, metric: Callable[[np.ndarray], float | None]
    ) -> tuple[float | None, float | None]:
        """Return the percentile interval; none if the metric is undefined for most samples."""
        values = [value for row in self.drawn @ sums if (value := metric(row)) is not None]
        if len(values) < MIN_DEFINED_SHARE * DRAWS:
            return None, None
        low, high = np.quantile(values, [0.025, 0.975])
        return float(low), float(high)


def _accuracy(decided: _Labels) -> Estimate:
    """Return the accuracy with Wilson's interval.

    A bootstrap of labels that are all right would suggest certainty.
    """
    right = np.where(decided.people > MIDDLE, decided.says, 1 - decided.says)
    return _share(float(right.sum()), len(decided), "labels above or below the midpoint")


def _share(hits: float, of: int, needs: str) -> Estimate:
    if of < MIN_LABELS:
        return Estimate(None, None, None, of, f"needs {MIN_LABELS} {needs}, has {of}")
    bounds = wilson(hits, of)
    assert bounds is not None  # of MIN_LABELS at least
    return Estimate(hits / of, bounds[0], bounds[1], of)


def _kappa(decided: _Labels) -> Estimate:
    """Return Cohen's kappa from the table people × scorer, (bad, good)²."""
    good = (decided.people > MIDDLE).astype(float)
    says = decided.says
    cells = np.stack(
        [(1 - good) * (1 - says), (1 - good) * says, good * (1 - says), good * says], axis=1
    )
    why = "people and scorer give all replies the same label, so agreement by chance is as high"
    return decided.estimate(
        cells,
        lambda sums: kappa_of_table(sums.reshape(2, 2)).value,
        len(decided),
        why,
        "labels above or below the midpoint",
    )


def _order(labels: _Labels) -> Estimate:
    """Return the share of pairs in a group ordered alike; pairs count at the group's first row."""
    parts = np.zeros((len(labels), 2))
    by_group = np.argsort(labels.group, kind="stable")
    for rows in np.split(by_group, np.flatnonzero(np.diff(labels.group[by_group])) + 1):
        people = labels.people[rows]
        scorer = labels.scorer[rows]
        better = people[:, None] > people[None, :]
        if better.any():
            parts[rows[0]] = (
                ((1 + np.sign(scorer[:, None] - scorer[None, :])) / 2)[better].sum(),
                better.sum(),
            )
    pairs = int(parts[:, 1].sum())
    return labels.estimate(parts, _ratio, pairs, "", "pairs ordered by people within a group")


def _ratio(sums: np.ndarray) -> float | None:
    return float(sums[0] / sums[1]) if sums[1] else None


def _rank(labels: _Labels) -> Estimate:
    """Return C. Spearman's correlation of ranks (1904). Ranks are not recomputed per sample."""
    if not len(labels):
        return labels.estimate(np.zeros((0, 6)), _correlation, 0, "")
    constant = (
        "the scorer gives all replies the same value"
        if np.ptp(labels.scorer) == 0
        else "people give all replies the same value"
    )
    moments = _moments(_ranks(labels.scorer), _ranks(labels.people))
    return labels.estimate(moments, _correlation, len(labels), constant)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1; ties share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def _moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return each row's contributions to the sums of 1, x, y, x², y² and xy, centred, (rows, 6)."""
    x = x - x.mean()
    y = y - y.mean()
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _spreads(sums: np.ndarray) -> tuple[float, float, float]:
    """Return the centred sums of squares of x and y and of their product."""
    n, x, y, xx, yy, xy = sums
    spread_x = xx - x * x / n
    spread_y = yy - y * y / n
    shared = xy - x * y / n
    return spread_x, spread_y, shared


def _correlation(sums: np.ndarray) -> float | None:
    xx, yy, xy = _spreads(sums)
    return float(np.clip(xy / np.sqrt(xx * yy), -1, 1)) if xx > 1e-9 and yy > 1e-9 else None


def _slope(sums: np.ndarray) -> float | None:
    """Return the slope of y on x, by least squares."""
    xx, _, xy = _spreads(sums)
    return float(xy / xx) if xx > 1e-9 else None


def _shift(labels: _Labels) -> Estimate:
    return labels.estimate(
        np.stack([labels.above, np.ones(len(labels))], axis=1), _ratio, len(labels), ""
    )


ONE_LENGTH = "all replies have the same length"


def _longer(labels: _Labels) -> Estimate:
    if not len(labels):
        return labels.estimate(np.zeros((0, 4)), _difference, 0, "")
    middle = np.median(labels.length)
    longer = labels.length > middle if (labels.length > middle).any() else labels.length >= middle
    return labels.estimate(
        _halves(labels.above, longer, ~longer), _difference, len(labels), ONE_LENGTH
    )


def _halves(value: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return each row's contributions to the sums and counts of two halves, (rows, 4)."""
    return np.stack([value * first, first, value * second, second], axis=1).astype(float)


def _difference(sums: np.ndarray) -> float | None:
    """Return the difference of the halves' means."""
    return float(sums[0] / sums[1] - sums[2] / sums[3]) if sums[1] and sums[3] else None


def _doubling(labels: _Labels) -> Estimate:
    if not len(labels):
        return labels.estimate(np.zeros((0, 6)), _slope, 0, "")
    return labels.estimate(
        _moments(np.log2(labels.length), labels.above), _slope, len(labels), ONE_LENGTH
    )


def _length(labels: _Labels) -> Estimate:
    if not len(labels):
        return labels.estimate(np.zeros((0, 6)), _correlation, 0, "")
    reason = (
        ONE_LENGTH
        if np.ptp(labels.length) == 0
        else "the difference between scorer and people is the same everywhere"
    )
    return labels.estimate(
        _moments(np.log2(labels.length), labels.above), _correlation, len(labels), reason
    )


ONE_AT_A_TIME = "the scorer sees one reply at a time, or doesn’t report positions"


def _earlier(labels: _Labels) -> Estimate:
    """Return the preference for earlier positions.

    The middle of an odd number belongs to no half.
    """
    parts = np.zeros((len(labels), 4))
    for n, row in enumerate(labels.rows):
        for place, among, vote in row.votes:
            half = 0 if place <= among // 2 else 2 if place > among - among // 2 else None
            if half is not None:
                parts[n, half : half + 2] += vote - row.people, 1
    votes = int(parts[:, [1, 3]].sum())
    if not votes:
        return Estimate(None, None, None, 0, ONE_AT_A_TIME)
    return labels.estimate(parts, _difference, votes, "all replies were in the same half", "votes")


def _first(labels: _Labels) -> Estimate:
    """Return how often the first was chosen; a tie is half a choice."""
    shown_first = [
        vote for row in labels.rows for place, among, vote in row.votes if (place, among) == (1, 2)
    ]
    if not shown_first:
        return Estimate(
            None, None, None, 0, "the scorer compares no pairs, or doesn’t report their order"
        )
    return _share(float(sum(shown_first)), len(shown_first), "votes")


def _reliability(labels: _Labels) -> tuple[Estimate, tuple[Bin, ...]]:
    place = np.minimum((labels.scorer * BINS).astype(int), BINS - 1)
    bins = []
    for n in np.unique(place):
        in_bin = place == n
        mean = float(labels.scorer[in_bin].mean()), float(labels.people[in_bin].mean())
        bins.append(Bin(n / BINS, (n + 1) / BINS, int(in_bin.sum()), *mean))
    if len(labels) < MIN_LABELS:
        return Estimate(
            None, None, None, len(labels), f"needs {MIN_LABELS} labels, has {len(labels)}"
        ), tuple(bins)
    error = sum(part.count * abs(part.scorer - part.people) for part in bins) / len(labels)
    return Estimate(error, None, None, len(labels)), tuple(bins)
