"""Sums of a number of two digits and one of one digit, asked in English, for language models."""

from collections.abc import Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

LEFT = range(10, 20)
RIGHT = range(2, 10)


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different sums; the answer is {"value": the sum}."""
    for number in draw_distinct(len(LEFT) * len(RIGHT), size, seed):
        left = LEFT[number // len(RIGHT)]
        right = RIGHT[number % len(RIGHT)]
        question = f"What is {left} + {right}? Answer with the number only."
        yield TaskRow(user_message(question), {"value": left + right}, domain="math")
