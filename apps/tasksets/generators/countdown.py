"""Make a number from others with + − × ÷: every task is made by a formula that solves it."""

import random
from collections.abc import Iterator
from fractions import Fraction

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

MANY = (3, 4)  # numbers given
LARGEST = 25
SPACE = 900_000
ASKED = (
    "Make {target} from the numbers {numbers}. Use each exactly once, with +, -, *, / and brackets. "
    "Write the formula in <answer> </answer>."
)


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Tasks of the domain "countdown", no prompt twice; the answer is {"target", "numbers"} for the scorer of that name."""
    seen: set[str] = set()
    for drawn in draw_distinct(SPACE, size, seed):
        numbers, target = drawn_task(random.Random(drawn))
        while (prompt := ASKED.format(target=target, numbers=", ".join(map(str, numbers)))) in seen:
            drawn += SPACE
            numbers, target = drawn_task(random.Random(drawn))
        seen.add(prompt)
        yield TaskRow(user_message(prompt), {"target": target, "numbers": numbers}, domain="countdown")


def drawn_task(draw: random.Random) -> tuple[list[int], int]:
    """Numbers, and a whole number above 0 that a formula makes of them."""
    while True:
        numbers = [draw.randrange(1, LARGEST + 1) for _ in range(draw.choice(MANY))]
        value = Fraction(numbers[0])
        for number in numbers[1:]:
            value = draw.choice((value + number, value - number, value * number, value / number))
        if value.denominator == 1 and 0 < value < 1_000:
            shown = sorted(numbers)
            return shown, int(value)
