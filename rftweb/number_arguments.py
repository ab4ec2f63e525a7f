"""Numbers on a command line, within bounds: types for the arguments of argparse."""

from argparse import ArgumentTypeError
from collections.abc import Callable

PORTS = (0, 65_535)  # 0: any free one


def whole_number(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return an argument's type: a whole number from `minimum` to `maximum`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not minimum <= number <= maximum:
            bounds = f"from {minimum} to {maximum}"
            raise ArgumentTypeError(f"{text!r} is not a whole number {bounds}")
        return number

    return read


def number_between(minimum: float, maximum: float) -> Callable[[str], float]:
    """Return an argument's type: a number from `minimum` to `maximum`, not NaN or infinite."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not minimum <= number <= maximum:
            raise ArgumentTypeError(f"{text!r} is not a number from {minimum:g} to {maximum:g}")
        return number

    return read
