"""Add two numbers below one hundred."""

from collections.abc import Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

LIMIT = 100


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Different sums; the answer is {"value": the sum}."""
    for number in draw_distinct(LIMIT * LIMIT, size, seed):
        left, right = divmod(number, LIMIT)
        yield TaskRow(user_message(f"{left}+{right}"), {"value": left + right})
