"""Token advantages are compared with sums written out term by term."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages import ADVANTAGES
from apps.pipelines.advantages.token import discounted, gae, over_tokens, remax

number = st.integers(-64, 64).map(lambda n: n / 16)
factor = st.sampled_from([1.0, 0.9, 0.5, 0.0])


@st.composite
def batches(draw):
    """Draw rows of different lengths: rewards, values, and masks with at least one policy token."""
    widths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    table = [[[draw(number) for _ in range(width)] for width in widths] for _ in range(2)]
    masks = [[1] + [draw(st.integers(0, 1)) for _ in range(width - 1)] for width in widths]
    return *table, masks


def slow_gae(rewards, values, gamma, lam):
    """Return A_t = Σ_l (γλ)^l δ_{t+l} (eq. 16), with each δ computed separately."""
    following = [*values[1:], 0.0]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, following, values, strict=True)]
    return [
        sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, len(deltas)))
        for t in range(len(deltas))
    ]


@given(batches(), factor, factor)
def test_gae_equals_the_discounted_sum_of_td_errors(batch, gamma, lam):
    rewards, values, _ = batch
    everywhere = [[1] * len(row) for row in rewards]
    advantages, returns = gae(rewards, everywhere, values, gamma=gamma, lam=lam, whiten=False)
    for row, estimate, mine, back in zip(rewards, values, advantages, returns, strict=True):
        expected = slow_gae(row, estimate, gamma, lam)
        assert mine == pytest.approx(expected, abs=1e-9)
        assert back == pytest.approx(
            [a + v for a, v in zip(expected, estimate, strict=True)], abs=1e-9
        )


@given(batches(), factor, factor)
def test_gae_skips_tokens_that_the_policy_did_not_write(batch, gamma, lam):
    rewards, values, masks = batch
    advantages, _ = gae(rewards, masks, values, gamma=gamma, lam=lam, whiten=False)
    for row, estimate, mask, mine in zip(rewards, values, masks, advantages, strict=True):
        own = [place for place, here in enumerate(mask) if here]
        expected = slow_gae([row[p] for p in own], [estimate[p] for p in own], gamma, lam)
        assert [mine[p] for p in own] == pytest.approx(expected, abs=1e-9)


@given(batches())
def test_token_advantage_without_critic_or_discount_is_the_following_reward(batch):
    rewards, _, _ = batch
    advantages, _ = gae(rewards, [[1] * len(row) for row in rewards], whiten=False)
    for row, mine in zip(rewards, advantages, strict=True):
        assert mine == pytest.approx([sum(row[t:]) for t in range(len(row))], abs=1e-9)


@given(batches(), factor)
def test_whitened_tokens_of_the_mask_have_mean_zero_and_variance_one(batch, gamma):
    rewards, _, masks = batch
    advantages, returns = discounted(rewards, masks, gamma=gamma)
    counted = [
        g
        for row, mask in zip(returns, masks, strict=True)
        for g, here in zip(row, mask, strict=True)
        if here
    ]
    found = [
        a
        for row, mask in zip(advantages, masks, strict=True)
        for a, here in zip(row, mask, strict=True)
        if here
    ]
    if len(counted) < 2 or max(counted) - min(counted) < 1e-6:
        assert found == pytest.approx([0.0] * len(found), abs=1e-1)
    else:
        root = math.sqrt(statistics.variance(counted) + 1e-8)
        assert found == pytest.approx(
            [(g - statistics.fmean(counted)) / root for g in counted], abs=1e-6
        )
    assert all(
        a == 0
        for row, mask in zip(advantages, masks, strict=True)
        for a, here in zip(row, mask, strict=True)
        if not here
    )


@given(batches(), factor)
def test_returns_are_discounted_sums_of_the_following_rewards(batch, gamma):
    rewards, _, masks = batch
    for row, mine in zip(rewards, discounted(rewards, masks, gamma=gamma)[1], strict=True):
        assert mine == pytest.approx(
            [sum(gamma ** (k - t) * row[k] for k in range(t, len(row))) for t in range(len(row))],
            abs=1e-9,
        )


def test_remax_subtracts_the_reward_of_the_greedy_reply():
    advantages, returns = remax([[0.0, 1.0], [0.5, 7.0]], [[1, 1], [1, 0]], [0.25, 1.0])
    assert returns == [[1.0, 1.0], [0.5, 0.0]] and advantages == [[0.75, 0.75], [-0.5, 0.0]]


def test_group_advantage_is_given_to_each_token_of_the_mask():
    rows = over_tokens(
        ADVANTAGES["rloo"], [[0.0, 1.0], [0.0], [2.0]], [[1, 0], [1], [1]], ["x", "x", "y"]
    )
    assert rows == [[1.0, 0.0], [-1.0], [2.0]]


def test_rows_of_a_dropped_group_are_zero():
    assert over_tokens(
        ADVANTAGES["grpo"], [[1.0], [1.0]], [[1], [1]], ["x", "x"], std_threshold=0.0
    ) == [[0.0], [0.0]]


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_missing_token_reward_is_refused(bad):
    for function in (gae, discounted):
        with pytest.raises(ValueError, match="finite"):
            function([[1.0, bad]], [[1, 1]])
