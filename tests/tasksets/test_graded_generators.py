"""Generators of graded questions: their scorers accept the right answers and reject others."""

import random

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.tasksets.generators import countdown
from apps.tasksets.generators import find_generator as generator
from apps.tasksets.generators.k12 import SUBJECTS
from apps.tasksets.rows import TaskRow


def value(scorer: str, row: TaskRow, said: str) -> float | None:
    return (
        find_scorer(scorer)
        .judge([RolloutView(said)], TaskView(row.prompt, row.answer, row.domain, row.meta))[0]
        .value
    )


def right(row: TaskRow) -> str:
    """Return the reply of a person who knows the answer."""
    answer = row.answer
    if "ideas" in answer:
        return answer["reference"][0]
    if "unit" in answer:
        return f"\\boxed{{{answer['value']} \\text{{ {answer['unit']}}}}}"
    said = answer["value"]
    return f"\\boxed{{{', '.join(said) if isinstance(said, list) else said}}}"


def test_scorer_accepts_only_the_right_answer_of_generated_math_tasks():
    rows = list(generator("math")(80, 5))
    assert {row.domain for row in rows} == {"math"} and len({row.meta["form"] for row in rows}) == 7
    assert [value("math", row, right(row)) for row in rows] == [1.0] * 80
    assert [value("math", row, "\\boxed{1234567}") for row in rows] == [0.0] * 80


def test_school_tasks_cover_all_subjects_and_their_scorers_accept_the_right_answer():
    rows = list(generator("k12")(100, 5))
    assert {row.domain for row in rows} == {row.meta["subject"] for row in rows} == set(SUBJECTS)
    assert {row.meta["scorer"] for row in rows} == {
        "choice",
        "quantity",
        "chemistry",
        "short_answer",
        "math",
    }
    assert [value(row.meta["scorer"], row, right(row)) for row in rows] == [1.0] * 100
    assert {value(row.meta["scorer"], row, "I do not know") for row in rows} == {0.0}


def test_every_countdown_can_be_solved():
    draw = random.Random(3)
    for row in generator("countdown")(60, draw.randrange(99)):
        assert row.domain == "countdown" and value(
            "countdown", row, f"<answer>{row.answer['target']}</answer>"
        ) in (0.0,)
        assert (
            value(
                "countdown",
                row,
                f"<answer>{solved(row.answer['numbers'], row.answer['target'])}</answer>",
            )
            == 1.0
        )


def test_countdown_draws_a_few_numbers_and_a_target_below_1000():
    numbers, target = countdown.drawn_task(random.Random(1))
    assert len(numbers) in countdown.MANY and 0 < target < 1_000


def solved(numbers: list[int], target: int) -> str:
    """Return a formula, found by combining the numbers in all possible ways."""
    found = _made([(float(number), str(number)) for number in numbers], target)
    assert found, f"{numbers} do not make {target}"
    return found


def _made(parts: list[tuple[float, str]], target: int) -> str:
    if len(parts) == 1:
        return parts[0][1] if abs(parts[0][0] - target) < 1e-9 else ""
    for i, (a, left) in enumerate(parts):
        for j, (b, right_) in enumerate(parts):
            if i == j:
                continue
            rest = [part for place, part in enumerate(parts) if place not in (i, j)]
            ways = [(a + b, "+"), (a - b, "-"), (a * b, "*"), *([(a / b, "/")] if b else [])]
            for result, sign in ways:
                if found := _made([*rest, (result, f"({left}{sign}{right_})")], target):
                    return found
    return ""


@pytest.mark.parametrize("name", ["math", "k12", "countdown"])
def test_every_prompt_has_more_than_five_words(name):
    assert all(len(row.prompt[0]["content"].split()) > 5 for row in generator(name)(20, 1))
