import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages import EPSILON, grpo

rewards = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=16)


@given(rewards)
def test_advantages_are_standard_scores_of_the_group(values):
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    for advantage, value in zip(grpo(values), values, strict=True):
        assert advantage == pytest.approx((value - mean) / (deviation + EPSILON), rel=1e-6, abs=1e-6)


@given(rewards)
def test_without_scale_advantages_are_differences_to_the_mean(values):
    assert math.fsum(grpo(values, "none")) == pytest.approx(0, abs=1e-8)


def test_an_all_equal_group_has_no_advantage():
    assert grpo([0.3] * 8) == pytest.approx([0.0] * 8, abs=1e-9)


def test_a_single_reward_has_no_baseline():
    with pytest.raises(ValueError, match="at least two"):
        grpo([1.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        grpo([1.0, bad])
