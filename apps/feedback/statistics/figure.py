"""A number that may not exist, with the words that say why: never NaN."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """`value` is None where it is not defined, and then `why` says so; `units` and `decisions` are what it was taken from."""

    value: float | None
    units: int
    decisions: int
    why: str = ""


def undefined(why: str, units: int = 0, decisions: int = 0) -> Figure:
    return Figure(None, units, decisions, why)


NOTHING_TWICE = "nobody has decided the same thing as another yet"
ALL_EQUAL = "all decisions are equal, so chance alone would agree as often"
