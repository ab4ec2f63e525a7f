"""A ranking of k rollouts becomes k rewards."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pipelines.advantages.group import grpo
from apps.pipelines.advantages.people import ranked, ranking

places = st.lists(st.integers(1, 6), min_size=2, max_size=7)


def test_ranking_is_spread_evenly_from_one_to_zero():
    assert ranked([2, 1, 4, 3, 5]) == [0.75, 1.0, 0.25, 0.5, 0.0]


@given(places)
def test_reward_is_the_share_of_others_beaten_with_a_tie_counting_half(given_places):
    for i, reward in enumerate(ranked(given_places)):
        others = given_places[:i] + given_places[i + 1 :]
        wins = [
            1.0 if given_places[i] < other else 0.5 if given_places[i] == other else 0.0
            for other in others
        ]
        assert reward == pytest.approx(statistics.fmean(wins))


@given(places)
def test_mean_reward_is_one_half_for_all_ties(given_places):
    assert statistics.fmean(ranked(given_places)) == pytest.approx(0.5)


def test_reward_is_one_half_when_nothing_can_be_compared():
    assert ranked([1]) == [0.5] and ranked([3, 3]) == [0.5, 0.5]


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.integers(2, 5))
def test_ranking_depends_only_on_the_order_of_the_rewards(rewards, power):
    assert ranking([rewards]) == ranking([[float(r) ** power for r in rewards]])


@given(st.permutations([0.0, 1.0, 10.0, 100.0]))
def test_ranking_advantages_equal_grpo_on_the_ranked_rewards(rewards):
    by_hand = [{0.0: 0.0, 1.0: 1 / 3, 10.0: 2 / 3, 100.0: 1.0}[r] for r in rewards]
    for scale in ("group", "none"):
        assert ranking([rewards], scale=scale)[0] == pytest.approx(grpo([by_hand], scale=scale)[0])


def test_better_rewards_get_higher_advantages():
    (scores,) = ranking([[5.0, 1.0, 3.0, 1.0]])
    assert scores[0] > scores[2] > scores[1] == scores[3]


def test_threshold_drops_a_group_in_which_all_rewards_tie():
    assert ranking([[1.0, 1.0], [0.0, 1.0]], std_threshold=0.0)[0] is None


@pytest.mark.parametrize("bad", [None, float("nan")])
def test_missing_place_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        ranked([1, bad])


def test_places_can_be_in_any_unit():
    assert all(
        ranked(list(p)) == ranked([10 * x for x in p]) for p in itertools.permutations([1, 2, 3])
    )
