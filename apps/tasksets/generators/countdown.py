"""Make a number from others with + − × ÷: every task is made by a formula that solves it.

A grade harder, one number more.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from apps.tasksets.rows import TaskRow, draw_distinct, said_alone, user_message

MANY = (3, 4)  # numbers given
MAX_GRADE = 6  # numbers given
MAX_NUMBER = 25
TOO_LARGE = 1_000  # for a target
SPACE = 900_000
ASKED = (
    "Make {target} from the numbers {numbers}. Use each exactly once, with +, -, *, / and brackets."
    " Write the formula in <answer> </answer>."
)


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield tasks of the domain "countdown", no prompt twice.

    The answer is {"target", "numbers"} for the scorer of that name.
    """
    earlier_prompts: set[str] = set()
    for task_number in draw_distinct(SPACE, size, seed):
        row = _drawn_row(task_number)
        while (prompt := said_alone(row)) in earlier_prompts:
            task_number += SPACE
            row = _drawn_row(task_number)
        earlier_prompts.add(prompt)
        yield row


def _drawn_row(number: int) -> TaskRow:
    numbers, target = drawn_task(random.Random(number))
    return build_countdown_task(target, numbers)


def build_countdown_task(target: int, numbers: Sequence[int]) -> TaskRow:
    prompt = ASKED.format(target=target, numbers=", ".join(map(str, numbers)))
    return TaskRow(
        user_message(prompt), {"target": target, "numbers": list(numbers)}, domain="countdown"
    )


def drawn_task(draw: random.Random, counts: Sequence[int] = MANY) -> tuple[list[int], int]:
    """Draw numbers, and a positive whole number that a formula of them equals."""
    while True:
        numbers = [draw.randrange(1, MAX_NUMBER + 1) for _ in range(draw.choice(counts))]
        value = Fraction(numbers[0])
        for number in numbers[1:]:
            value = draw.choice((value + number, value - number, value * number, value / number))
        if value.denominator == 1 and 0 < value < TOO_LARGE:
            ordered = sorted(numbers)
            return ordered, int(value)


def read_grade(row: TaskRow) -> int | None:
    """Return how many numbers are given; None for a task of another kind."""
    target = row.answer.get("target")
    numbers = row.answer.get("numbers")
    if type(target) is not int or not isinstance(numbers, list):
        return None
    is_own = row.prompt == build_countdown_task(target, numbers).prompt
    return len(numbers) if is_own else None


def harder(row: TaskRow, draw: random.Random) -> TaskRow | None:
    """Return other numbers, one more of them; None where there is no higher grade."""
    count = read_grade(row)
    if count is None or count >= MAX_GRADE:
        return None
    numbers, target = drawn_task(draw, (count + 1,))
    return build_countdown_task(target, numbers)


def asking_for(row: TaskRow, reached: Mapping[str, Any]) -> TaskRow | None:
    """Return the task of the same numbers with this target.

    None where such a one is never drawn.
    """
    target = reached.get("target")
    if read_grade(row) is None or type(target) is not int or not 0 < target < TOO_LARGE:
        return None
    return build_countdown_task(target, row.answer["numbers"])
