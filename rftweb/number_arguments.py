"""Numbers on a command line, within bounds: types for the arguments of argparse."""

from argparse import ArgumentTypeError
from collections.abc import Callable

PORTS = (0, 65_535)  # 0: any free one


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return an argument's type: a whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return number

    return read


def number_between(least: float, most: float) -> Callable[[str], float]:
    """Return an argument's type: a number from `least` to `most`, so neither NaN nor infinite."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return number

    return read
