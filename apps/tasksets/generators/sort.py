"""Sort five digits in ascending order: verifiable by anybody, at a glance."""

from collections.abc import Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

DIGITS = 5


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Different digit strings; the answer is {"sorted": the digits in ascending order}."""
    for number in draw_distinct(10**DIGITS, size, seed):
        digits = f"{number:0{DIGITS}d}"
        yield TaskRow(user_message(digits), {"sorted": "".join(sorted(digits))})
