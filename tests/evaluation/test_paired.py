"""Differences task by task: only tasks of both sides count, shared difficulty cancels out, and
missing values stay missing.
"""

import random
from statistics import mean, stdev

import pytest

from apps.evaluation.metrics import mean_with_interval
from apps.evaluation.paired import of_differences, paired


def test_only_tasks_with_a_metric_on_both_sides_are_compared():
    found = paired({1: 1.0, 2: 0.5, 3: 0.0, 9: 1.0}, {1: 0.5, 2: 0.5, 3: 1.0, 8: 0.0})
    assert (found.tasks, found.better, found.worse, found.same) == (3, 1, 1, 1)
    assert found.value == pytest.approx(-0.5 / 3)


def test_the_interval_is_that_of_the_paired_t_test():
    values = [0.5, 0.25, 0.0, -0.25, 0.5]
    found = of_differences(values)
    half = 2.776445 * stdev(values) / 5**0.5  # t of 4 degrees of freedom, 97.5 %
    assert (found.low, found.high) == (
        pytest.approx(mean(values) - half),
        pytest.approx(mean(values) + half),
    )


def test_shared_task_difficulty_does_not_widen_the_interval():
    """Compare tasks of every difficulty with one side better by 0.06: separate intervals overlap,
    the paired one is clear.
    """
    draw = random.Random(7)
    hard = {task: draw.uniform(0.1, 0.8) for task in range(60)}
    one = {task: min(value + 0.06 + draw.uniform(-0.02, 0.02), 1.0) for task, value in hard.items()}
    apart = (mean_with_interval(one.values()), mean_with_interval(hard.values()))
    found = paired(one, hard)
    assert (
        apart[0].low < apart[1].high
        and found.is_clear
        and found.value == pytest.approx(0.06, abs=0.01)
    )
    assert found.high - found.low < (apart[0].high - apart[0].low) / 5


@pytest.mark.parametrize(
    ("difference", "low", "high"),
    [(0.0, -0.0370, 0.0370), (1.0, 0.9260, 1.0), (-1.0, -1.0, -0.9260)],
)
def test_interval_has_a_width_when_all_differences_are_equal(difference, low, high):
    """Expect Wilson's lower bound for 100 of 100, 100 / (100 + 1.96²) = 0.9630; the others may
    differ by 1 either way.
    """
    found = of_differences([difference] * 100)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert found.is_clear is bool(difference)


def test_one_task_gives_no_clear_difference_and_no_task_gives_none():
    assert not of_differences([0.5]).is_clear
    found = paired({1: 1.0}, {2: 1.0})
    assert (found.value, found.tasks, found.is_clear) == (None, 0, False)


def test_interval_covers_the_true_difference_about_95_percent_of_the_time():
    """Draw right and wrong answers, four per task; the true difference is 0.05 on average."""
    draw = random.Random(3)
    held = 0
    for _ in range(400):
        chances = [draw.uniform(0.05, 0.9) for _ in range(80)]
        sides = [
            {n: mean(draw.random() < p + more for _ in range(4)) for n, p in enumerate(chances)}
            for more in (0.05, 0.0)
        ]
        found = paired(*sides)
        held += found.low <= 0.05 <= found.high
    assert 0.92 <= held / 400 <= 0.98
