"""Add two numbers below one hundred; a grade harder, numbers of one digit more."""

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from apps.tasksets.rows import TaskRow, draw_distinct, said_alone, user_message

LIMIT = 100
MIN_GRADE = 2
MAX_GRADE = 12  # digits of the larger number
SUM = re.compile(r"([0-9]{1,30})\+([0-9]{1,30})")


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different sums; the answer is {"value": the sum}."""
    for number in draw_distinct(LIMIT * LIMIT, size, seed):
        yield build_sum_task(*divmod(number, LIMIT))


def build_sum_task(left: int, right: int) -> TaskRow:
    return TaskRow(user_message(f"{left}+{right}"), {"value": left + right})


def read_summands(row: TaskRow) -> tuple[int, int] | None:
    """Return the two numbers that the task adds; None for a task of another kind."""
    match = SUM.fullmatch(said_alone(row))
    numbers = (int(match[1]), int(match[2])) if match else None
    return numbers if numbers and row.answer == {"value": sum(numbers)} else None


def read_grade(row: TaskRow) -> int | None:
    """Return digits of the larger number, two at least; None of a task of another kind."""
    numbers = read_summands(row)
    return max(MIN_GRADE, len(str(max(numbers)))) if numbers else None


def harder(row: TaskRow, draw: random.Random) -> TaskRow | None:
    """Return another sum, of two numbers that have one digit more.

    None where there is no higher grade.
    """
    digits = read_grade(row)
    if digits is None or digits >= MAX_GRADE:
        return None
    return build_sum_task(*(draw.randrange(10**digits, 10 ** (digits + 1)) for _ in range(2)))


def asking_for(row: TaskRow, reached: Mapping[str, Any]) -> TaskRow | None:
    """Return the sum of the same first number that has this value.

    None where no second one of the same grade makes it.
    """
    numbers = read_summands(row)
    value = reached.get("value")
    if numbers is None or type(value) is not int:
        return None
    missing = value - numbers[0]
    return (
        build_sum_task(numbers[0], missing) if 0 <= missing < 10 ** (read_grade(row) or 0) else None
    )
