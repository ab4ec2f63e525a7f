"""Sort five digits in ascending order: verifiable by anybody, at a glance.

A grade harder, one digit more.
"""

import random
from collections.abc import Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, said_alone, user_message

DIGITS = 5
MAX_GRADE = 20  # digits


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different digit strings; the answer is {"sorted": the digits in ascending order}."""
    for number in draw_distinct(10**DIGITS, size, seed):
        yield build_sort_task(f"{number:0{DIGITS}d}")


def build_sort_task(digits: str) -> TaskRow:
    return TaskRow(user_message(digits), {"sorted": "".join(sorted(digits))})


def read_grade(row: TaskRow) -> int | None:
    """Return how many digits are to be sorted; None for a task of another kind."""
    digits = said_alone(row)
    is_own = digits.isascii() and digits.isdigit() and row.answer == build_sort_task(digits).answer
    return len(digits) if is_own else None


def harder(row: TaskRow, draw: random.Random) -> TaskRow | None:
    """Return other digits, one more of them; None where there is no higher grade."""
    count = read_grade(row)
    if count is None or count >= MAX_GRADE:
        return None
    return build_sort_task("".join(draw.choice("0123456789") for _ in range(count + 1)))
