import pytest

from apps.rewards.combining import Judgement, combined, peoples_word


@pytest.fixture
def tone(plan):
    return plan(
        rewards=[{"scorer": "tone", "weight": 2.0}, {"scorer": "length", "weight": -0.5}],
        people={"per_group": 1, "weight": 0.75},
    )


def test_machine_rewards_are_summed_by_weight(tone):
    assert combined([Judgement("tone", 0.5), Judgement("length", 0.2)], tone) == pytest.approx(0.9)


def test_missing_scorer_gives_no_reward(tone):
    assert combined([Judgement("tone", 0.5)], tone) is None


def test_failed_scorer_does_not_count_as_zero(tone):
    assert combined([Judgement("tone", None), Judgement("length", 0.2)], tone) is None


def test_ratings_have_their_weight_if_people_and_machine_judged(tone):
    said = [
        Judgement("tone", 0.5),
        Judgement("length", 0.2),
        Judgement("stars", 1.0, True),
        Judgement("stars", 0.5, True),
    ]
    assert combined(said, tone) == pytest.approx(0.75 * 0.75 + 0.25 * 0.9)


def test_ratings_suffice_if_the_machine_reward_failed(tone):
    assert combined([Judgement("tone", None), Judgement("stars", 0.25, True)], tone) == 0.25


def test_combined_rating_of_people_replaces_their_single_ratings(tone):
    said = [
        Judgement("tone", None),
        Judgement("stars", 1.0, True),
        Judgement("stars", 0.5, True),
        Judgement("people", 0.9, True),
    ]
    assert combined(said, tone) == 0.9


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ([], None),
        ([Judgement("tone", 0.5)], None),
        (
            [Judgement("tone", 0.1), Judgement("stars", 1.0, True), Judgement("stars", 0.5, True)],
            0.75,
        ),
        ([Judgement("stars", 1.0, True), Judgement("people", 0.25, True)], 0.25),
        ([Judgement("stars", 1.0, True), Judgement("flag", None, True)], None),
        ([Judgement("flag", None, True), Judgement("people", 0.25, True)], 0.25),
        ([Judgement("stars", 1.0, True), Judgement("people", None, True)], None),
    ],
)
def test_ratings_of_people_are_combined_into_one_value(said, word):
    assert peoples_word(said) == word


def test_flagged_rollout_has_no_reward(tone):
    machine = [Judgement("tone", 0.5), Judgement("length", 0.2)]
    assert (
        combined([*machine, Judgement("stars", 1.0, True), Judgement("flag", None, True)], tone)
        is None
    )
    assert (
        combined([*machine, Judgement("stars", 1.0, True), Judgement("people", None, True)], tone)
        is None
    )


def test_overruled_flag_keeps_the_reward(tone):
    said = [
        Judgement("tone", 0.5),
        Judgement("length", 0.2),
        Judgement("flag", None, True),
        Judgement("people", 0.5, True),
    ]
    assert combined(said, tone) == pytest.approx(0.75 * 0.5 + 0.25 * 0.9)


def test_rater_model_gives_no_reward_to_a_rollout_that_people_rejected(plan):
    modelled = plan(
        rewards=[],
        people={"per_group": 2, "rater_model": {}, "at_deadline": "fill_with_rater_model"},
    )
    assert combined([Judgement("rater_model", 0.8)], modelled) == 0.8
    assert (
        combined([Judgement("rater_model", 0.8), Judgement("people", None, True)], modelled) is None
    )
