"""How far a scorer says what people say of the same replies: right and wrong, order, leanings, and how its numbers are to be read.

Both lie on scales from 0 (least) to 1 (most). A label is good above the middle and bad below it. People exactly at the middle say
neither, and their label is left out of what needs one; a scorer at its middle counts half as each, so that who never decides is
right half the time and agrees no more than chance. Replies of one group hang together, so intervals draw groups again, not replies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from apps.feedback.statistics.agreement import kappa_of_table
from apps.feedback.statistics.intervals import FEWEST_DRAWS, wilson

MIDDLE = 0.5
LEAST = 10  # labels, pairs or votes below which no figure is given
BINS = 10  # of the scorer's range, equally wide
DRAWS = 400


@dataclass(frozen=True)
class Judged:
    """A reply that both have judged. `length` in tokens, 0 where it is not known; `votes`: of a scorer that looks at several
    answers at once, (place from 1, how many were shown, the vote) for each look.
    """

    rollout: int
    group: int
    scorer: float
    people: float
    length: int = 0
    votes: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval, from `of` labels, pairs or votes. `value` is None where it does not exist: `why` says so."""

    value: float | None
    low: float | None
    high: float | None
    of: int
    why: str = ""


@dataclass(frozen=True)
class Bin:
    """Replies to which the scorer gave from `low` up to `high`: how many, what it gave and what people gave, in the mean."""

    low: float
    high: float
    count: int
    scorer: float
    people: float


@dataclass(frozen=True)
class Calibration:
    """All figures of one scorer.

    `accuracy`: share of labels it shares; `kappa`: the same beyond chance (Cohen); `order`: of pairs of a group that people put
    in order, the share it orders alike, a tie of its counting half; `rank`: Spearman's correlation; `shift`: what it gives above
    people. `longer`: how much more it gives the longer half above people than the shorter half; `doubling`: how much more with
    each doubling of the length; `length`: correlation of length (its logarithm) and what it gives above people. `earlier`: how
    much more it gives what it was shown in the earlier half; `first`: of two, how often it took the first. `error`: how far bins
    lie from people's mean, each weighing as its replies (expected calibration error).
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


def scaled(value: float, low: float, high: float) -> float:
    """Where in its range a value lies, 0 to 1; what lies beyond is at its end."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0


def calibration(rows: Sequence[Judged]) -> Calibration:
    """Every figure of these replies. The same rows always give the same intervals."""
    labels = _Labels(rows)
    decided = labels.where(labels.people != MIDDLE)
    known = labels.where(labels.length > 0)
    return Calibration(
        len(labels), len(labels) - len(decided), _accuracy(decided), _kappa(decided), _order(labels), _rank(labels), _shift(labels),
        _longer(known), _doubling(known), _length(known), _earlier(labels), _first(labels), *_reliability(labels),
    )  # fmt: skip


class _Labels:
    """The rows as arrays, (rows,)."""

    def __init__(self, rows: Sequence[Judged]) -> None:
        self.rows = rows
        self.scorer, self.people = (np.array([getattr(row, name) for row in rows], float) for name in ("scorer", "people"))
        self.length = np.array([row.length for row in rows], float)
        self.group = np.unique([row.group for row in rows], return_inverse=True)[1] if rows else np.zeros(0, int)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: np.ndarray) -> "_Labels":
        return _Labels([row for row, is_chosen in zip(self.rows, chosen, strict=True) if is_chosen])

    @property
    def above(self) -> np.ndarray:
        """What the scorer gives above people."""
        return self.scorer - self.people

    @property
    def says(self) -> np.ndarray:
        """How far the scorer calls each good: 1, 0, or ½ at its middle."""
        return (1 + np.sign(self.scorer - MIDDLE)) / 2

    @cached_property
    def drawn(self) -> np.ndarray:
        """How often each group is there when they are drawn again with replacement, (draws, groups)."""
        groups = int(self.group.max()) + 1
        found = np.random.default_rng(0).integers(groups, size=(DRAWS, groups)) + groups * np.arange(DRAWS)[:, None]
        return np.bincount(found.ravel(), minlength=DRAWS * groups).reshape(DRAWS, groups).astype(float)

    def estimate(
        self, parts: np.ndarray, figure: Callable[[np.ndarray], float | None], of: int, why: str, needs: str = "labels"
    ) -> Estimate:
        """A figure of sums: `parts` (rows, k) are what each row adds to them. The interval draws groups again."""
        if of < LEAST:
            return Estimate(None, None, None, of, f"needs {LEAST} {needs}, has {of}")
        value = figure(parts.sum(0))
        if value is None:
            return Estimate(None, None, None, of, why)
        sums = np.zeros((int(self.group.max()) + 1, parts.shape[1]))
        np.add.at(sums, self.group, parts)
        return Estimate(value, *(self._bounds(sums, figure) if len(sums) > 1 else (None, None)), of)

    def _bounds(self, sums: np.ndarray, figure: Callable[[np.ndarray], float | None]) -> tuple[float | None, float | None]:
        """Percentile interval; none where most draws have no figure."""
        values = [value for row in self.drawn @ sums if (value := figure(row)) is not None]
        if len(values) < FEWEST_DRAWS * DRAWS:
            return None, None
        low, high = np.quantile(values, [0.025, 0.975])
        return float(low), float(high)


def _accuracy(decided: _Labels) -> Estimate:
    """By Wilson's interval: where all are right, drawing them again would promise certainty."""
    right = np.where(decided.people > MIDDLE, decided.says, 1 - decided.says)
    return _share(float(right.sum()), len(decided), "labels above or below the middle")


def _share(hits: float, of: int, needs: str) -> Estimate:
    if of < LEAST:
        return Estimate(None, None, None, of, f"needs {LEAST} {needs}, has {of}")
    return Estimate(hits / of, *wilson(hits, of), of)


def _kappa(decided: _Labels) -> Estimate:
    """From the table people × scorer, (bad, good)²."""
    good, says = (decided.people > MIDDLE).astype(float), decided.says
    cells = np.stack([(1 - good) * (1 - says), (1 - good) * says, good * (1 - says), good * says], axis=1)
    why = "people and scorer say one and the same of all, so chance alone would agree as often"
    return decided.estimate(
        cells, lambda sums: kappa_of_table(sums.reshape(2, 2)).value, len(decided), why, "labels above or below the middle"
    )


def _order(labels: _Labels) -> Estimate:
    """Pairs within a group; what they add stands at the group's first row."""
    parts = np.zeros((len(labels), 2))
    by_group = np.argsort(labels.group, kind="stable")
    for own in np.split(by_group, np.flatnonzero(np.diff(labels.group[by_group])) + 1):
        people, scorer = labels.people[own], labels.scorer[own]
        better = people[:, None] > people[None, :]
        if better.any():
            parts[own[0]] = ((1 + np.sign(scorer[:, None] - scorer[None, :])) / 2)[better].sum(), better.sum()
    pairs = int(parts[:, 1].sum())
    return labels.estimate(parts, _ratio, pairs, "", "pairs of one group that people put in order")


def _ratio(sums: np.ndarray) -> float | None:
    return float(sums[0] / sums[1]) if sums[1] else None


def _rank(labels: _Labels) -> Estimate:
    """C. Spearman (1904): the correlation of ranks. They are not made anew for each draw."""
    if not len(labels):
        return labels.estimate(np.zeros((0, 6)), _correlation, 0, "")
    constant = "the scorer gives all the same" if np.ptp(labels.scorer) == 0 else "people give all the same"
    moments = _moments(_ranks(labels.scorer), _ranks(labels.people))
    return labels.estimate(moments, _correlation, len(labels), constant)


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 1; those that tie share the mean of their places."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def _moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What each row adds to the sums of 1, x, y, x², y² and xy, around the means, (rows, 6)."""
    x, y = x - x.mean(), y - y.mean()
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _spreads(sums: np.ndarray) -> tuple[float, float, float]:
    """Sums of squares of x and y and of their product around the means of these sums."""
    n, x, y, xx, yy, xy = sums
    return xx - x * x / n, yy - y * y / n, xy - x * y / n


def _correlation(sums: np.ndarray) -> float | None:
    xx, yy, xy = _spreads(sums)
    return float(np.clip(xy / np.sqrt(xx * yy), -1, 1)) if xx > 1e-9 and yy > 1e-9 else None


def _slope(sums: np.ndarray) -> float | None:
    """Of y on x, by least squares."""
    xx, _, xy = _spreads(sums)
    return float(xy / xx) if xx > 1e-9 else None


def _shift(labels: _Labels) -> Estimate:
    return labels.estimate(np.stack([labels.above, np.ones(len(labels))], axis=1), _ratio, len(labels), "")


ONE_LENGTH = "all replies are of one length"


def _longer(known: _Labels) -> Estimate:
    if not len(known):
        return known.estimate(np.zeros((0, 4)), _difference, 0, "")
    middle = np.median(known.length)
    longer = known.length > middle if (known.length > middle).any() else known.length >= middle
    return known.estimate(_halves(known.above, longer, ~longer), _difference, len(known), ONE_LENGTH)


def _halves(value: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What each row adds to the sums and counts of two halves, (rows, 4)."""
    return np.stack([value * one, one, value * other, other], axis=1).astype(float)


def _difference(sums: np.ndarray) -> float | None:
    """Of the halves' means."""
    return float(sums[0] / sums[1] - sums[2] / sums[3]) if sums[1] and sums[3] else None


def _doubling(known: _Labels) -> Estimate:
    if not len(known):
        return known.estimate(np.zeros((0, 6)), _slope, 0, "")
    return known.estimate(_moments(np.log2(known.length), known.above), _slope, len(known), ONE_LENGTH)


def _length(known: _Labels) -> Estimate:
    if not len(known):
        return known.estimate(np.zeros((0, 6)), _correlation, 0, "")
    same = ONE_LENGTH if np.ptp(known.length) == 0 else "scorer and people lie equally far apart everywhere"
    return known.estimate(_moments(np.log2(known.length), known.above), _correlation, len(known), same)


ONE_AT_A_TIME = "it sees one answer at a time, or does not say where each stood"


def _earlier(labels: _Labels) -> Estimate:
    """Over votes: the middle place of an odd number belongs to no half."""
    parts = np.zeros((len(labels), 4))
    for n, row in enumerate(labels.rows):
        for place, among, vote in row.votes:
            half = 0 if place <= among // 2 else 2 if place > among - among // 2 else None
            if half is not None:
                parts[n, half : half + 2] += vote - row.people, 1
    votes = int(parts[:, [1, 3]].sum())
    if not votes:
        return Estimate(None, None, None, 0, ONE_AT_A_TIME)
    return labels.estimate(parts, _difference, votes, "all of them stood in one half", "votes")


def _first(labels: _Labels) -> Estimate:
    """A tie is half a choice of the first."""
    shown_first = [vote for row in labels.rows for place, among, vote in row.votes if (place, among) == (1, 2)]
    if not shown_first:
        return Estimate(None, None, None, 0, "it compares no pairs, or does not say which it saw first")
    return _share(float(sum(shown_first)), len(shown_first), "votes")


def _reliability(labels: _Labels) -> tuple[Estimate, tuple[Bin, ...]]:
    place = np.minimum((labels.scorer * BINS).astype(int), BINS - 1)
    bins = []
    for n in np.unique(place):
        own = place == n
        mean = float(labels.scorer[own].mean()), float(labels.people[own].mean())
        bins.append(Bin(n / BINS, (n + 1) / BINS, int(own.sum()), *mean))
    if len(labels) < LEAST:
        return Estimate(None, None, None, len(labels), f"needs {LEAST} labels, has {len(labels)}"), tuple(bins)
    error = sum(one.count * abs(one.scorer - one.people) for one in bins) / len(labels)
    return Estimate(error, None, None, len(labels)), tuple(bins)
