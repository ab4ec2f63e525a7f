import pytest

from apps.rewards.combining import Judgement, combined


@pytest.fixture
def tone(plan):
    return plan(
        rewards=[{"scorer": "tone", "weight": 2.0}, {"scorer": "length", "weight": -0.5}], people={"per_group": 1, "weight": 0.75}
    )


def test_machine_rewards_are_summed_by_their_weights(tone):
    assert combined([Judgement("tone", 0.5), Judgement("length", 0.2)], tone) == pytest.approx(0.9)


def test_a_missing_scorer_leaves_no_reward(tone):
    assert combined([Judgement("tone", 0.5)], tone) is None


def test_a_failed_scorer_is_not_a_zero(tone):
    assert combined([Judgement("tone", None), Judgement("length", 0.2)], tone) is None


def test_people_have_their_share_where_both_spoke(tone):
    said = [Judgement("tone", 0.5), Judgement("length", 0.2), Judgement("stars", 1.0, True), Judgement("stars", 0.5, True)]
    assert combined(said, tone) == pytest.approx(0.75 * 0.75 + 0.25 * 0.9)


def test_people_alone_suffice_when_the_machine_failed(tone):
    assert combined([Judgement("tone", None), Judgement("stars", 0.25, True)], tone) == 0.25
