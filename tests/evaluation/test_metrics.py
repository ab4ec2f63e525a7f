"""The estimators equal a slow count over every way to take k samples; unrewarded samples count
nowhere.
"""

import random
from collections import Counter
from itertools import combinations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.metrics import (
    TaskSamples,
    are_comparable,
    best_at,
    build_pass_table,
    compute_means,
    list_reported_ks,
    majority_at,
    mean_with_interval,
    of_task,
    pass_at,
    t95,
    worst_at,
)

REWARDS = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=6)


@given(REWARDS, st.data())
def test_each_estimator_is_the_mean_over_all_ways_to_take_k(values, data):
    k = data.draw(st.integers(1, len(values)))
    taken = list(combinations(values, k))
    right = sum(value == 1.0 for value in values)
    assert pass_at(len(values), right, k) == pytest.approx(mean(1.0 in some for some in taken))
    assert best_at(values, k) == pytest.approx(mean(map(max, taken)))
    assert worst_at(values, k) == pytest.approx(mean(map(min, taken)))


@given(
    st.lists(
        st.sampled_from([("7", 1.0), ("8", 0.0), ("9", 0.0), ("", 0.0)]), min_size=1, max_size=5
    ),
    st.data(),
)
def test_majority_breaks_ties_by_chance_and_ignores_missing_answers(said, data):
    k = data.draw(st.integers(1, len(said)))
    slow = []
    for some in combinations(said, k):
        votes = Counter(answer for answer, _ in some if answer)
        winners = sorted(answer for answer in votes if votes[answer] == max(votes.values()))
        slow.append(mean(dict(some)[answer] for answer in winners) if winners else 0.0)
    assert majority_at(said, k) == pytest.approx(mean(slow))


def test_majority_of_many_samples_is_close_to_the_exact_value():
    said = [("7", 1.0)] * 8 + [("8", 0.0)] * 7
    exact = mean(sum(answer == "7" for answer, _ in some) >= 3 for some in combinations(said, 5))
    assert majority_at(said, 5) == pytest.approx(exact, abs=0.08) and majority_at(
        said, 5
    ) == majority_at(said, 5)


@pytest.mark.parametrize("measure", ["pass", "mean", "best", "worst", "maj"])
def test_samples_without_a_reward_are_not_counted(measure):
    whole = TaskSamples((1.0, 0.0), ("7", "8"))
    torn = TaskSamples((1.0, None, 0.0, None), ("7", "7", "8", ""))
    assert of_task(torn, measure, 1) == of_task(whole, measure, 1)
    assert of_task(torn, measure, 2) == of_task(whole, measure, 2)
    assert (of_task(torn, measure, 3) is None) == (measure != "mean") and of_task(
        TaskSamples((None, None), ("", "")), measure, 1
    ) is None


def test_answer_is_right_from_the_configured_share_of_the_reward():
    task = TaskSamples((0.8, 0.2), ("a", "b"))
    assert (of_task(task, "pass", 1), of_task(task, "pass", 1, correct_threshold=0.5)) == (0.0, 0.5)


def test_t_quantiles_match_published_tables():
    tabled = {1: 12.706, 4: 2.776, 5: 2.571, 9: 2.262, 30: 2.042, 120: 1.980, 100_000: 1.960}
    assert {freedom: t95(freedom) for freedom in tabled} == pytest.approx(tabled, abs=2e-3)


def test_interval_of_a_mean_covers_the_truth_about_95_percent_of_the_time():
    draw = random.Random(3)
    truth = 0.3
    held = 0
    for _ in range(400):
        tasks = [
            draw.betavariate(0.6, 1.4) for _ in range(40)
        ]  # tasks differ, which an interval over samples would ignore
        found = mean_with_interval(
            [sum(draw.random() < easy for _ in range(4)) / 4 for easy in tasks]
        )
        held += found.low <= truth <= found.high
    assert 0.91 <= held / 400 <= 0.98


def test_interval_has_a_width_even_when_all_tasks_agree():
    all_right = mean_with_interval([1.0] * 20)
    assert (
        (all_right.value, all_right.tasks) == (1.0, 20)
        and 0.8 < all_right.low < 0.9
        and all_right.high == pytest.approx(1.0)
    )
    assert (
        mean_with_interval([None]).value is None
        and mean_with_interval([0.4]).low < 0.4 < mean_with_interval([0.4]).high
    )


def test_reported_ks_are_powers_of_two_and_the_sample_count():
    assert (list_reported_ks(1), list_reported_ks(4), list_reported_ks(6)) == (
        [1],
        [1, 2, 4],
        [1, 2, 4, 6],
    )


def test_majority_requires_answers_that_can_be_equal():
    assert are_comparable([TaskSamples((1.0, 1.0), ("7", "7"))])
    assert not are_comparable([TaskSamples((1.0, 1.0), ("7", "8"))])
    assert not are_comparable([TaskSamples((1.0,) * 4, ("7", "7", "", ""))])


def test_slice_metrics_are_means_over_their_own_tasks():
    tasks = [TaskSamples((1.0, 1.0)), TaskSamples((0.0, 1.0)), TaskSamples((0.0, None))]
    table = build_pass_table(tasks, 2, 1.0, ("pass", "mean"))
    assert compute_means(table)["pass"]["2"][0] == 1.0 and compute_means(table)["pass"]["2"][3] == 2
    assert compute_means(table, lambda n: n == 2)["mean"]["1"][0] == 0.0
