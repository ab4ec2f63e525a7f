"""Work with sets of real numbers as intervals: unions, intersections, complements, equality."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.rewards.mathematics import values


@dataclass(frozen=True)
class Interval:
    """Interval from `low` to `high`, which are mpmath reals or infinities.

    `has_low`, `has_high`: closed at that end.
    """

    low: Any
    high: Any
    has_low: bool
    has_high: bool

    @property
    def is_empty(self) -> bool:
        if _equal(self.low, self.high):
            return not (self.has_low and self.has_high)
        return self.low > self.high


@dataclass(frozen=True)
class RealSet:
    """Set of real numbers: ordered intervals that do not touch each other."""

    intervals: tuple[Interval, ...]

    @property
    def is_empty(self) -> bool:
        return not self.intervals

    def equals(self, other: "RealSet") -> bool:
        if len(self.intervals) != len(other.intervals):
            return False
        pairs = zip(self.intervals, other.intervals, strict=True)
        return all(
            _equal(a.low, b.low)
            and _equal(a.high, b.high)
            and (a.has_low, a.has_high) == (b.has_low, b.has_high)
            for a, b in pairs
        )


def _equal(a: Any, b: Any) -> bool:
    return values.is_close(a, b)


def _infinity() -> Any:
    import mpmath

    return mpmath.inf


def join_intervals(intervals: Sequence[Interval]) -> RealSet:
    """Put the intervals in order and join those that touch."""
    ordered = sorted(
        (interval for interval in intervals if not interval.is_empty),
        key=lambda interval: (interval.low, not interval.has_low),
    )
    merged: list[Interval] = []
    for interval in ordered:
        if merged and _touch(merged[-1], interval):
            merged[-1] = _joined(merged[-1], interval)
        else:
            merged.append(interval)
    return RealSet(tuple(merged))


def _touch(first: Interval, second: Interval) -> bool:
    if _equal(first.high, second.low):
        return first.has_high or second.has_low
    return second.low < first.high


def _joined(first: Interval, second: Interval) -> Interval:
    low_closed = first.has_low or (_equal(first.low, second.low) and second.has_low)
    if _equal(first.high, second.high):
        return Interval(first.low, first.high, low_closed, first.has_high or second.has_high)
    far = first if first.high > second.high else second
    return Interval(first.low, far.high, low_closed, far.has_high)


def everything() -> RealSet:
    return RealSet((Interval(-_infinity(), _infinity(), False, False),))


def empty_set() -> RealSet:
    return RealSet(())


def set_of_points(numbers: Sequence[Any]) -> RealSet:
    return join_intervals([Interval(number, number, True, True) for number in numbers])


def union(sets: Sequence[RealSet]) -> RealSet:
    return join_intervals([interval for real_set in sets for interval in real_set.intervals])


def complement(real_set: RealSet) -> RealSet:
    gaps = []
    low = -_infinity()
    has_low = False
    for interval in real_set.intervals:
        gaps.append(Interval(low, interval.low, has_low, not interval.has_low))
        low = interval.high
        has_low = not interval.has_high
    gaps.append(Interval(low, _infinity(), has_low, False))
    return join_intervals([gap for gap in gaps if not _is_beyond(gap)])


def _is_beyond(interval: Interval) -> bool:
    """Tell whether both ends lie at the same infinity, so that the interval is empty."""
    return _equal(interval.low, interval.high) and abs(interval.low) == _infinity()


def intersection(sets: Sequence[RealSet]) -> RealSet:
    return complement(union([complement(real_set) for real_set in sets]))


def difference(first: RealSet, second: RealSet) -> RealSet:
    return intersection([first, complement(second)])
