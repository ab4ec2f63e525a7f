"""The countdown scorer: exact use of the numbers, separate arithmetic, no evaluation of code."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer

TASK = {"target": 24, "numbers": [3, 8, 1, 1]}


def judged(response: str, answer: dict = TASK, **options: object) -> Verdict:
    return find_scorer("countdown").judge([RolloutView(response)], TaskView((), answer), options)[0]


@pytest.mark.parametrize(
    "response",
    [
        "<answer>3*8*1*1</answer>",
        "<think>no</think> <answer>(3*8)/1*1 = 24</answer>",
        "\\boxed{3 \\times 8 \\times 1 \\cdot 1}",
        "3 × 8 ÷ 1 ÷ 1 = 24",
        "The answer is 3*8+1-1",
        "24 = 3*8*1*1",
        "<answer>\\frac{3*8}{1*1}</answer>",
        "<answer>-(-3)*8*1*1</answer>",
    ],
)
def test_formula_that_equals_the_target_is_rewarded(response):
    assert judged(response).value == 1.0


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("3*8", "1 was not used"),
        ("3*8*1*1*1", "more often"),
        ("24", "more often"),
        ("3*8+1+1", "a wrong value"),
        ("38-1-1", "more often"),
        ("3*8*1^1", "not allowed"),
        ("3*8/(1-1)", "divided by zero"),
        ("3 8 1 1", "no formula"),
        ("3*8*1*1 = 25", "a different value"),
        ("9**9**9**9", "not allowed"),
        ("__import__('os')", "no formula"),
        ("(" * 500, "no formula"),
        ("3*8*1*1; 24", "no formula"),
        ("sqrt(9)*8*1*1", "not allowed"),
        ("4!", "not allowed"),
        ("3*8*1*1*x", "not allowed"),
        ("", "no formula"),
    ],
)
def test_wrong_formula_earns_nothing(formula, reason):
    verdict = judged(f"<answer>{formula}</answer>")
    assert verdict.value == 0.0
    assert reason in verdict.reason


def test_fractions_are_computed_exactly():
    assert (
        judged("<answer>8/(3-8/3)</answer>", {"target": 24, "numbers": [8, 3, 8, 3]}).value == 1.0
    )


def test_option_at_most_allows_unused_numbers():
    assert judged("<answer>3*8</answer>", use="at_most").value == 1.0
    assert judged("<answer>3*8*3/3</answer>", use="at_most").value == 0.0


def test_formula_with_the_right_numbers_earns_the_format_share():
    assert judged("<answer>3+8+1+1</answer>", format=0.1).value == 0.1
    assert judged("<answer>3+8</answer>", format=0.1).value == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"target": 3},
        {"target": "x", "numbers": [1]},
        {"target": 1, "numbers": [True]},
        {"target": 1, "numbers": []},
    ],
)
def test_task_without_numbers_gives_no_value(answer):
    assert judged("<answer>1</answer>", answer).value is None
