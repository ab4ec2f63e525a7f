"""A number that may be undefined, with the reason: never NaN."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statistic:
    """A number with its units and decisions.

    `value` is None if it is undefined, and `why` says so.
    """

    value: float | None
    units: int
    decisions: int
    why: str = ""


def undefined(why: str, units: int = 0, decisions: int = 0) -> Statistic:
    return Statistic(None, units, decisions, why)


NOTHING_TWICE = "no item has two ratings yet"
ALL_EQUAL = "all ratings are equal, so agreement by chance is as high"
