"""Group advantages are compared with simple versions that use the statistics module; edge cases."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages import ADVANTAGES
from apps.pipelines.advantages.group import EPSILON, asymre, best, grpo, opmd, rec, reinforce, rloo

# Multiples of 1/64: differences are exact, so that no test depends on rounding errors.
reward = st.integers(-640, 640).map(lambda n: n / 64)
group = st.lists(reward, min_size=2, max_size=9)
batch = st.lists(group, min_size=1, max_size=4)


def close(values):
    return pytest.approx(values, rel=1e-9, abs=1e-9)


@given(batch)
def test_grpo_gives_standard_scores_of_the_group(groups):
    for rewards, scores in zip(groups, grpo(groups), strict=True):
        mean = statistics.fmean(rewards)
        deviation = statistics.stdev(rewards)
        assert scores == close([(r - mean) / (deviation + EPSILON) for r in rewards])


@given(batch)
def test_grpo_with_batch_scale_uses_group_means_and_the_deviation_of_the_batch(groups):
    deviation = statistics.stdev([r for rewards in groups for r in rewards])
    for rewards, scores in zip(groups, grpo(groups, scale="batch"), strict=True):
        assert scores == close(
            [(r - statistics.fmean(rewards)) / (deviation + EPSILON) for r in rewards]
        )


@given(batch)
def test_grpo_without_scale_gives_differences_to_the_mean(groups):
    for rewards, scores in zip(groups, grpo(groups, scale="none"), strict=True):
        assert scores == close([r - statistics.fmean(rewards) for r in rewards])


@given(batch, st.floats(0, 5))
def test_grpo_drops_exactly_the_groups_whose_deviation_is_at_most_the_threshold(groups, threshold):
    dropped = [scores is None for scores in grpo(groups, std_threshold=threshold)]
    assert dropped == [statistics.stdev(rewards) <= threshold for rewards in groups]


def test_grpo_with_a_threshold_drops_a_group_of_one():
    assert grpo([[3.0], [0.0, 1.0]], std_threshold=0.0)[0] is None


@given(batch)
def test_rloo_compares_each_rollout_with_the_mean_of_the_others(groups):
    for rewards, scores in zip(groups, rloo(groups), strict=True):
        others = [statistics.fmean(rewards[:i] + rewards[i + 1 :]) for i in range(len(rewards))]
        assert scores == close([r - o for r, o in zip(rewards, others, strict=True)])


@given(batch, st.floats(0.05, 20))
def test_opmd_subtracts_the_soft_mean(groups, tau):
    for rewards, scores in zip(groups, opmd(groups, baseline="logavgexp", tau=tau), strict=True):
        soft = tau * math.log(statistics.fmean(math.exp(r / tau) for r in rewards))
        assert scores == pytest.approx([r - soft for r in rewards], rel=1e-7, abs=1e-7)


def test_soft_mean_of_opmd_does_not_overflow_at_a_small_temperature():
    assert opmd([[0.0, 1000.0]], baseline="logavgexp", tau=0.01)[0] == close(
        [-1000 + 0.01 * math.log(2), 0.01 * math.log(2)]
    )


@given(group)
def test_soft_mean_of_opmd_approaches_the_mean_as_tau_grows(rewards):
    assert opmd([rewards], baseline="logavgexp", tau=1e7)[0] == pytest.approx(
        opmd([rewards])[0], abs=1e-4
    )


@given(batch, st.floats(-1, 1))
def test_asymre_shifts_the_mean(groups, shift):
    for rewards, scores in zip(groups, asymre(groups, baseline_shift=shift), strict=True):
        assert scores == close([r - (statistics.fmean(rewards) + shift) for r in rewards])


@given(batch)
def test_reinforce_advantage_is_the_reward_itself(groups):
    assert reinforce(groups) == groups


@given(batch)
def test_rec_divides_by_the_population_deviation(groups):
    for rewards, scores in zip(groups, rec(groups, std_normalize=True), strict=True):
        mean = statistics.fmean(rewards)
        deviation = statistics.pstdev(rewards)
        assert scores == close([(r - mean) / (deviation + EPSILON) for r in rewards])


@given(group, st.integers(0, 5))
def test_balanced_rec_keeps_at_most_as_many_rewards_below_the_mean_as_others(rewards, seed):
    (scores,) = rec([rewards], drop="balance", seed=seed)
    mean = statistics.fmean(rewards)
    below = [i for i, r in enumerate(rewards) if r < mean]
    surplus = max(0, 2 * len(below) - len(rewards))
    # The kept differences sum to zero, because the mean is that of the kept rewards.
    assert math.fsum(scores) == pytest.approx(0, abs=1e-9)
    assert sum(s == 0 for i, s in enumerate(scores) if i in below) >= surplus
    assert sum(s < 0 for s in scores) <= len(rewards) - surplus


def test_balanced_rec_uses_the_mean_of_the_kept_rewards():
    (scores,) = rec([[0.0, 0.0, 0.0, 0.0, 1.0]], drop="balance")
    assert sorted(scores) == [-0.5, 0.0, 0.0, 0.0, 0.5]


def test_balanced_rec_draws_the_same_rewards_from_the_same_seed():
    groups = [[0.1, 0.2, 0.3, 0.4, 9.0]]
    assert rec(groups, drop="balance", seed=4) == rec(groups, drop="balance", seed=4)
    assert len({tuple(rec(groups, drop="balance", seed=seed)[0]) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("grpo", 0.7 / (1 + EPSILON)),
        ("rloo", 0.7),
        ("opmd", 0.7),
        ("asymre", 0.7),
        ("rec", 0.7),
        ("reinforce", 0.7),
        ("reinforce_plus_plus", 0.0),
        ("ranking", 0.5 / (1 + EPSILON)),
        ("best", 1.0),
    ],
)
def test_group_of_one_has_the_expected_advantage(name, alone):
    assert ADVANTAGES[name]([[0.7]])[0] == close([alone])


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("grpo", 0.0),
        ("rloo", 0.0),
        ("opmd", 0.0),
        ("asymre", 0.1),
        ("rec", 0.0),
        ("reinforce", 0.3),
        ("reinforce_plus_plus", 0.0),
        ("ranking", 0.0),
    ],
)
def test_group_of_equal_rewards_gets_level_advantages_despite_rounding_errors(name, level):
    assert ADVANTAGES[name]([[0.1 + 0.2, 0.3, 0.3]])[0] == close([level] * 3)


@given(group, st.integers(1, 4))
def test_best_chooses_the_requested_number_of_rewards_and_none_left_out_is_higher(rewards, keep):
    (chosen,) = best([rewards], keep=keep)
    inside = [r for r, c in zip(rewards, chosen, strict=True) if c]
    outside = [r for r, c in zip(rewards, chosen, strict=True) if not c]
    assert len(inside) == min(keep, len(rewards)) and set(chosen) <= {0.0, 1.0}
    assert min(inside) >= max(outside, default=-math.inf)


def test_best_drops_a_group_without_a_sufficient_reward():
    assert best([[0.2, 0.9], [0.2, 1.0]], min_reward=1.0) == [None, [0.0, 1.0]]


def test_best_prefers_the_earlier_of_equal_rewards():
    assert best([[1.0, 1.0, 0.0]]) == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ADVANTAGES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_missing_or_infinite_reward_is_refused_with_its_position(name, bad):
    with pytest.raises(ValueError, match="reward 1 of 2"):
        ADVANTAGES[name]([[1.0, 0.0], [1.0, bad]])


@pytest.mark.parametrize("name", ADVANTAGES)
def test_empty_group_is_refused(name):
    with pytest.raises(ValueError, match="at least one"):
        ADVANTAGES[name]([[]])


@pytest.mark.parametrize(
    ("name", "options", "right"),
    [
        ("grpo", {"scale": "rows"}, "group, batch or none"),
        ("opmd", {"baseline": "median"}, "mean or logavgexp"),
        ("opmd", {"baseline": "logavgexp", "tau": 0}, "above 0"),
        ("rec", {"drop": "half"}, "balance"),
        ("reinforce_plus_plus", {"baseline": "batch"}, "none or group"),
        ("best", {"keep": 0}, "at least 1"),
    ],
)
def test_option_out_of_range_is_refused_with_the_valid_range(name, options, right):
    with pytest.raises(ValueError, match=right):
        ADVANTAGES[name]([[0.0, 1.0]], **options)


@given(batch, st.floats(0.01, 1))
def test_rank_penalty_scales_rewards_down_by_likelihood_and_keeps_the_order(groups, penalty):
    logprobs = [[-float(place) for place in range(len(group))] for group in groups]
    for group, scores in zip(
        groups, grpo(groups, scale="none", rank_penalty=penalty, logprobs=logprobs), strict=True
    ):
        last = len(group) - 1  # the first rollout is the most likely
        level = [r * (1 - penalty * (last - i) / len(group)) for i, r in enumerate(group)]
        if len(group) > 1:
            assert scores == close([r - statistics.fmean(level) for r in level])


def test_rank_penalty_reinforces_unlikely_right_answers_most():
    rewards = [1.0, 1.0, 0.0]
    (scores,) = grpo([rewards], rank_penalty=0.5, logprobs=[[-0.1, -2.0, -1.0]])
    likely, unlikely, wrong = scores
    assert unlikely > likely > wrong


def test_rank_penalty_without_logprobs_is_refused():
    with pytest.raises(ValueError, match="mean logprob"):
        grpo([[0.0, 1.0]], rank_penalty=0.1)
