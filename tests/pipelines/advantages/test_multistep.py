"""Multi-turn advantages are compared with versions that handle one turn at a time."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages.multistep import gigpo, step_wise_grpo

reward = st.integers(-64, 64).map(lambda n: n / 16)
rollout = st.lists(reward, min_size=1, max_size=4)
groups = st.lists(st.lists(rollout, min_size=2, max_size=4), min_size=1, max_size=3)


@st.composite
def with_states(draw):
    batch = draw(groups)
    return batch, [
        [[draw(st.sampled_from(["a", "b", "c", None])) for _ in turns] for turns in group]
        for group in batch
    ]


@given(groups, st.booleans(), st.sampled_from(["group", "batch"]))
def test_every_turn_gets_the_score_of_the_last_turn_of_its_rollout(batch, step_norm, scale):
    everything = [turns[-1] for group in batch for turns in group]
    for group, found in zip(
        batch, step_wise_grpo(batch, scale=scale, step_norm=step_norm), strict=True
    ):
        last = [turns[-1] for turns in group]
        deviation = statistics.stdev(last if scale == "group" else everything)
        for turns, scores in zip(group, found, strict=True):
            score = (
                (turns[-1] - statistics.fmean(last))
                / (deviation + 1e-6)
                / (len(turns) if step_norm else 1)
            )
            assert scores == pytest.approx([score] * len(turns), rel=1e-9, abs=1e-9)


def test_threshold_drops_a_group_whose_rollouts_end_with_equal_rewards():
    assert step_wise_grpo([[[0.0, 1.0], [1.0]], [[0.0], [1.0]]], std_threshold=0.0)[0] is None


def slow_gigpo(batch, states, omega, gamma, scale, across):
    def score(value, values):
        if len(values) == 1:
            return value / (1 + 1e-6)
        return (value - statistics.fmean(values)) / (
            (statistics.stdev(values) if scale == "std" else 1) + 1e-6
        )

    def rest(g, i, t):
        return sum(gamma ** (k - t) * r for k, r in enumerate(batch[g][i]) if k >= t)

    everywhere = [
        (g, i, t)
        for g in range(len(batch))
        for i in range(len(batch[g]))
        for t in range(len(batch[g][i]))
    ]
    found = {}
    for g, i, t in everywhere:
        state = states[g][i][t]
        same = [
            rest(*p)
            for p in everywhere
            if states[p[0]][p[1]][p[2]] == state and (across or p[0] == g)
        ]
        found[g, i, t] = score(sum(batch[g][i]), [sum(turns) for turns in batch[g]])
        if state is not None and len(same) > 1:
            found[g, i, t] += omega * score(rest(g, i, t), same)
    return [
        [[found[g, i, t] for t in range(len(batch[g][i]))] for i in range(len(batch[g]))]
        for g in range(len(batch))
    ]


@given(
    with_states(),
    st.sampled_from([0.0, 1.0, 0.5]),
    st.sampled_from([1.0, 0.9]),
    st.sampled_from(["std", "none"]),
    st.booleans(),
)
def test_gigpo_adds_the_advantage_of_each_turn_among_turns_in_the_same_state(
    drawn, omega, gamma, scale, across
):
    batch, states = drawn
    found = gigpo(batch, states, omega=omega, gamma=gamma, scale=scale, across_groups=across)
    expected = slow_gigpo(batch, states, omega, gamma, scale, across)
    for mine, theirs in zip(found, expected, strict=True):
        for turns, other in zip(mine, theirs, strict=True):
            # Equal rewards leave a rounding error of 1e-16 that the slow version divides by ε.
            assert turns == pytest.approx(other, rel=1e-6, abs=1e-6)


def test_state_that_occurs_once_adds_nothing():
    assert (
        gigpo([[[1.0], [0.0]]], [[["a"], ["b"]]])[0]
        == gigpo([[[1.0], [0.0]]], [[[None], [None]]])[0]
    )


def test_single_rollout_keeps_its_reward():
    assert gigpo([[[0.25, 0.5]]], [[[None, None]]])[0][0] == pytest.approx([0.75, 0.75], rel=1e-5)


@pytest.mark.parametrize("bad", [None, float("nan")])
def test_missing_reward_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        gigpo([[[1.0, bad], [0.0]]], [[[None, None], [None]]])
    with pytest.raises(ValueError, match="finite"):
        step_wise_grpo([[[1.0, bad], [0.0]]])


def test_unknown_scale_is_refused_with_the_valid_choices():
    with pytest.raises(ValueError, match="std or none"):
        gigpo([[[1.0]]], [[[None]]], scale="group")
