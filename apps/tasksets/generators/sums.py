"""Sums of two numbers below fifty, asked in English, for language models that can already read."""

from collections.abc import Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

LEFT = range(10, 50)
RIGHT = range(2, 50)


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Different sums; the answer is {"value": the sum}."""
    for number in draw_distinct(len(LEFT) * len(RIGHT), size, seed):
        left, right = LEFT[number // len(RIGHT)], RIGHT[number % len(RIGHT)]
        question = f"What is {left} + {right}? Answer with the number only."
        yield TaskRow(user_message(question), {"value": left + right}, domain="math")
