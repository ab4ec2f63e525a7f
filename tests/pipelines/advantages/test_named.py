"""GDPO is compared with the standard scores of each single reward."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages.named import gdpo

reward = st.integers(-640, 640).map(lambda n: n / 64)
rollout = st.fixed_dictionaries({"right": reward, "short": reward})
groups = st.lists(st.lists(rollout, min_size=2, max_size=6), min_size=1, max_size=3)
WEIGHTS = {"right": 2.0, "short": 0.5}


def by_hand(group):
    found = [0.0] * len(group)
    for name, weight in WEIGHTS.items():
        values = [rewards[name] for rewards in group]
        mean = statistics.fmean(values)
        deviation = statistics.stdev(values)
        found = [
            f + weight * (v - mean) / (deviation + 1e-6) for f, v in zip(found, values, strict=True)
        ]
    return found


@given(groups)
def test_each_reward_is_normalised_before_summing(batch):
    for scores, group in zip(gdpo(batch, weights=WEIGHTS), batch, strict=True):
        assert scores == pytest.approx(by_hand(group), rel=1e-9, abs=1e-9)


@given(groups)
def test_whitening_gives_the_batch_mean_zero_and_deviation_one(batch):
    sums = [s for group in batch for s in by_hand(group)]
    found = [s for group in gdpo(batch, weights=WEIGHTS, whiten=True) for s in group]
    mean = statistics.fmean(sums)
    deviation = statistics.stdev(sums)
    assert found == pytest.approx(
        [(s - mean) / (deviation + 1e-6) for s in sums], rel=1e-6, abs=1e-6
    )


def test_reward_with_a_large_range_does_not_outweigh_a_small_one():
    group = [{"a": 0.0, "b": 1.0}, {"a": 1000.0, "b": 0.0}, {"a": 0.0, "b": 0.0}]
    assert gdpo([group])[0][0] == pytest.approx(gdpo([group])[0][1], rel=1e-4)


def test_reward_that_is_equal_for_all_rollouts_adds_nothing():
    assert gdpo([[{"a": 1.0, "b": 3.0}, {"a": 0.0, "b": 3.0}]]) == gdpo([[{"a": 1.0}, {"a": 0.0}]])


def test_single_rollout_keeps_the_sum_of_its_rewards():
    assert gdpo([[{"a": 2.0, "b": 1.0}]])[0] == pytest.approx([3.0], rel=1e-5)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ([{"a": 1.0, "b": 1.0}, {"a": 1.0}], "lacks the reward 'b'"),
        ([{"a": 1.0, "c": 1.0}, {"a": 1.0, "c": 0.0}], "'c' has no weight"),
        ([{"a": 1.0}, {"a": None}], "finite"),
        ([{"a": 1.0}, {"a": float("inf")}], "finite"),
    ],
)
def test_missing_unknown_or_infinite_reward_is_refused(group, words):
    with pytest.raises(ValueError, match=words):
        gdpo([group], weights={"a": 1.0, "b": 1.0})
