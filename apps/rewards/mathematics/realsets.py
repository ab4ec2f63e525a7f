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

    def same(self, other: "RealSet") -> bool:
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
    left = sorted(
        (one for one in intervals if not one.is_empty), key=lambda one: (one.low, not one.has_low)
    )
    found: list[Interval] = []
    for one in left:
        if found and _touch(found[-1], one):
            found[-1] = _joined(found[-1], one)
        else:
            found.append(one)
    return RealSet(tuple(found))


def _touch(one: Interval, other: Interval) -> bool:
    if _equal(one.high, other.low):
        return one.has_high or other.has_low
    return other.low < one.high


def _joined(one: Interval, other: Interval) -> Interval:
    low_closed = one.has_low or (_equal(one.low, other.low) and other.has_low)
    if _equal(one.high, other.high):
        return Interval(one.low, one.high, low_closed, one.has_high or other.has_high)
    far = one if one.high > other.high else other
    return Interval(one.low, far.high, low_closed, far.has_high)


def everything() -> RealSet:
    return RealSet((Interval(-_infinity(), _infinity(), False, False),))


def empty_set() -> RealSet:
    return RealSet(())


def set_of_points(numbers: Sequence[Any]) -> RealSet:
    return join_intervals([Interval(number, number, True, True) for number in numbers])


def union(sets: Sequence[RealSet]) -> RealSet:
    return join_intervals([interval for one in sets for interval in one.intervals])


def complement(one: RealSet) -> RealSet:
    found = []
    low = -_infinity()
    has_low = False
    for interval in one.intervals:
        found.append(Interval(low, interval.low, has_low, not interval.has_low))
        low = interval.high
        has_low = not interval.has_high
    found.append(Interval(low, _infinity(), has_low, False))
    return join_intervals([each for each in found if not _is_beyond(each)])


def _is_beyond(interval: Interval) -> bool:
    """Tell whether both ends lie at the same infinity, so that the interval is empty."""
    return _equal(interval.low, interval.high) and abs(interval.low) == _infinity()


def intersection(sets: Sequence[RealSet]) -> RealSet:
    return complement(union([complement(one) for one in sets]))


def difference(one: RealSet, other: RealSet) -> RealSet:
    return intersection([one, complement(other)])
