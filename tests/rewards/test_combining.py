import pytest

from apps.rewards.combining import Judgement, combined, peoples_word


@pytest.fixture
def tone(plan):
    return plan(
        rewards=[{"scorer": "tone", "weight": 2.0}, {"scorer": "length", "weight": -0.5}],
        people={"per_group": 1, "weight": 0.75},
    )


def test_machine_rewards_are_summed_by_their_weights(tone):
    assert combined([Judgement("tone", 0.5), Judgement("length", 0.2)], tone) == pytest.approx(0.9)


def test_a_missing_scorer_leaves_no_reward(tone):
    assert combined([Judgement("tone", 0.5)], tone) is None


def test_a_failed_scorer_is_not_a_zero(tone):
    assert combined([Judgement("tone", None), Judgement("length", 0.2)], tone) is None


def test_people_have_their_share_where_both_spoke(tone):
    said = [
        Judgement("tone", 0.5),
        Judgement("length", 0.2),
        Judgement("stars", 1.0, True),
        Judgement("stars", 0.5, True),
    ]
    assert combined(said, tone) == pytest.approx(0.75 * 0.75 + 0.25 * 0.9)


def test_people_alone_suffice_when_the_machine_failed(tone):
    assert combined([Judgement("tone", None), Judgement("stars", 0.25, True)], tone) == 0.25


def test_what_people_say_together_stands_for_what_each_said(tone):
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
def test_people_have_one_word_of_a_rollout(said, word):
    assert peoples_word(said) == word


def test_a_rollout_that_people_flagged_has_no_reward(tone):
    machine = [Judgement("tone", 0.5), Judgement("length", 0.2)]
    assert (
        combined([*machine, Judgement("stars", 1.0, True), Judgement("flag", None, True)], tone)
        is None
    )
    assert (
        combined([*machine, Judgement("stars", 1.0, True), Judgement("people", None, True)], tone)
        is None
    )


def test_a_flag_that_was_overruled_leaves_the_reward(tone):
    said = [
        Judgement("tone", 0.5),
        Judgement("length", 0.2),
        Judgement("flag", None, True),
        Judgement("people", 0.5, True),
    ]
    assert combined(said, tone) == pytest.approx(0.75 * 0.5 + 0.25 * 0.9)


def test_no_rater_model_gives_a_broken_rollout_a_reward(plan):
    modelled = plan(
        rewards=[],
        people={"per_group": 2, "rater_model": {}, "at_deadline": "fill_with_rater_model"},
    )
    assert combined([Judgement("rater_model", 0.8)], modelled) == 0.8
    assert (
        combined([Judgement("rater_model", 0.8), Judgement("people", None, True)], modelled) is None
    )
