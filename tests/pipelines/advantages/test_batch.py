"""Batch-wide advantages are compared with token lists written out in full."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages.batch import reinforce_plus_plus, whitened

reward = st.integers(-640, 640).map(lambda n: n / 64)


@st.composite
def counted(draw):
    """Draw groups of rewards, and the token counts of the rollouts in the same shape."""
    groups = draw(st.lists(st.lists(reward, min_size=1, max_size=4), min_size=1, max_size=4))
    return groups, [[draw(st.integers(1, 5)) for _ in group] for group in groups]


def written_out(groups, tokens):
    return [
        r
        for group, counts in zip(groups, tokens, strict=True)
        for r, n in zip(group, counts, strict=True)
        for _ in range(n)
    ]


@given(counted())
def test_every_token_of_the_batch_has_equal_weight(batch):
    groups, tokens = batch
    values = written_out(groups, tokens)
    found = written_out(reinforce_plus_plus(groups, tokens=tokens), tokens)
    if len(values) < 2 or len(set(values)) == 1:
        assert found == [0.0] * len(values)
    else:
        root = math.sqrt(statistics.variance(values) + 1e-8)
        assert found == pytest.approx(
            [(v - statistics.fmean(values)) / root for v in values], rel=1e-9, abs=1e-9
        )


@given(counted())
def test_group_baseline_subtracts_the_mean_of_each_group_first(batch):
    groups, tokens = batch
    less = [
        [r - statistics.fmean(group) for r in group] if len(group) > 1 else group
        for group in groups
    ]
    found = reinforce_plus_plus(groups, tokens=tokens, baseline="group")
    for mine, expected in zip(found, reinforce_plus_plus(less, tokens=tokens), strict=True):
        assert mine == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_masked_value_does_not_change_the_mean():
    assert whitened([1.0, 3.0, 1e9], [1, 1, 0])[:2] == pytest.approx(
        [-1 / math.sqrt(2), 1 / math.sqrt(2)]
    )
