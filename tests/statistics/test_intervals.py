"""Intervals: known formulas, coverage of a known truth, and no interval without data."""

import numpy as np
import pytest

from apps.statistics.intervals import bootstrap_interval, wilson


def test_wilson_interval_matches_the_published_numbers():
    """Newcombe, Statistics in Medicine 17 (1998), Table I: 81 of 263, 15 of 148 and 0 of 20."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=0.0001)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=0.0001)
    assert wilson(0, 20) == pytest.approx((0.0000, 0.1611), abs=0.0001)


def test_share_of_zero_cases_has_no_interval():
    assert wilson(0, 0) is None


def test_bootstrap_interval_of_a_mean_matches_its_standard_error():
    values = np.random.default_rng(5).normal(0, 1, 400)
    low, high = bootstrap_interval(lambda rows: float(values[rows].mean()), 400)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_equal_decisions_always_give_the_same_interval():
    values = np.arange(30.0)
    assert bootstrap_interval(lambda rows: float(values[rows].mean()), 30) == bootstrap_interval(
        lambda rows: float(values[rows].mean()), 30
    )


def test_bootstrap_covers_the_truth_about_as_often_as_it_claims():
    random = np.random.default_rng(7)
    hits = 0
    for seed in range(100):
        values = random.random(60) < 0.7
        low, high = bootstrap_interval(
            lambda rows, values=values: float(values[rows].mean()), 60, draws=200, seed=seed
        )
        hits += low <= 0.7 <= high
    assert 85 <= hits <= 100


@pytest.mark.parametrize("decisions", [0, 1])
def test_too_few_decisions_have_no_interval(decisions):
    assert bootstrap_interval(lambda rows: 1.0, decisions) is None


def test_undefined_metric_has_no_interval():
    assert bootstrap_interval(lambda rows: None, 10) is None
