"""From several ratings to one value per rollout, by each rule; computed by hand where possible."""

import math

import numpy as np
import pytest

from apps.feedback.forms import FORMS
from apps.feedback.rater_quality import Quality, category, fitted
from apps.feedback.rules import RULES, DecidedValues
from apps.runs.people import People

PEOPLE = People()
ANN = 1
BEN = 2
CEM = 3


def said(form, answer, shown, rater=ANN, rating=1):
    return DecidedValues(
        rating, rater, form, answer, shown, FORMS[form].values(answer, shown, PEOPLE)
    )


def values(rule, *decisions, qualities=None):
    return {
        rollout: word.value for rollout, word in RULES[rule](decisions, qualities or {}).items()
    }


def errors(rule, *decisions, qualities=None):
    return {
        rollout: word.error for rollout, word in RULES[rule](decisions, qualities or {}).items()
    }


def scale(**raters):
    """Return the quality of raters on a scale: name=(bias, variance)."""
    ids = {"ann": ANN, "ben": BEN, "cem": CEM}
    bias = {ids[name]: bias for name, (bias, _) in raters.items()}
    return Quality(
        0,
        {},
        bias,
        {ids[name]: variance for name, (_, variance) in raters.items()},
        dict.fromkeys(bias, 9),
        0.04,
    )


def test_the_mean_of_stars_has_the_standard_error_of_a_mean():
    two = said("stars", {"stars": 5}, [7]), said("stars", {"stars": 3}, [7], BEN)
    assert values("mean", *two) == {7: 0.75}
    # Standard deviation of 1 and 1/2 is √(1/8); of their mean, half.
    assert errors("mean", *two) == {7: pytest.approx(0.25)}


def test_single_rating_has_no_error():
    assert errors("mean", said("stars", {"stars": 5}, [7])) == {7: None}


def test_comparison_gives_a_value_to_both_replies():
    assert values("mean", said("pairwise", {"preference": -3}, [7, 3])) == {7: 1.0, 3: 0.0}


def test_weighted_rule_removes_bias_and_weights_by_precision():
    qualities = {"stars": scale(ann=(0.1, 0.01), ben=(-0.1, 0.04))}
    two = said("stars", {"stars": 4}, [7]), said("stars", {"stars": 2}, [7], BEN)
    # (0.75 − 0.1) weighs 100, (0.25 + 0.1) weighs 25.
    assert values("weighted", *two, qualities=qualities) == {
        7: pytest.approx((0.65 * 100 + 0.35 * 25) / 125)
    }
    assert errors("weighted", *two, qualities=qualities) == {7: pytest.approx(1 / math.sqrt(125))}


def test_weighted_value_stays_within_the_scale():
    assert values(
        "weighted", said("stars", {"stars": 5}, [7]), qualities={"stars": scale(ann=(-0.3, 0.01))}
    ) == {7: 1.0}


def test_unknown_rater_has_the_weight_of_a_typical_rater():
    two = said("stars", {"stars": 5}, [7]), said("stars", {"stars": 1}, [7], CEM)
    assert values("weighted", *two, qualities={"stars": scale(ann=(0.0, 0.04))}) == {
        7: pytest.approx(0.5)
    }


def test_weighted_thumbs_use_the_log_odds_of_accuracy():
    coin = Quality(2, {ANN: 0.9, BEN: 0.75, CEM: 0.75}, {}, {}, {}, 0.0)
    three = (
        said("thumbs", {"up": True}, [7]),
        said("thumbs", {"up": False}, [7], BEN),
        said("thumbs", {"up": False}, [7], CEM),
    )
    # log 9 against twice log 3: even.
    assert values("weighted", *three, qualities={"thumbs": coin}) == {7: pytest.approx(0.5)}


def test_rating_only_by_a_rater_at_chance_level_still_has_a_value():
    coin = Quality(2, {ANN: 0.5}, {}, {}, {}, 0.0)
    assert values("weighted", said("thumbs", {"up": True}, [7]), qualities={"thumbs": coin}) == {
        7: 1.0
    }


def test_strength_from_one_pair_maximizes_the_likelihood():
    found = values("bradley_terry", said("pairwise", {"preference": -3}, [7, 3]))
    assert found[7] + found[3] == pytest.approx(1)
    s = math.log(found[7] / found[3])  # the score of the winner; the loser's is −s
    beats_other = 1 / (1 + math.exp(-2 * s))
    beats_typical = 1 / (1 + math.exp(-s))
    assert 1 - beats_other + 0.5 - beats_typical == pytest.approx(0, abs=1e-6)


def test_strength_from_stars_is_relative_to_the_typical_reply():
    # Two decisions of 1 and 1/2, and half a game each beforehand: (1.5 + 0.5) / 3.
    two = said("stars", {"stars": 5}, [7]), said("stars", {"stars": 3}, [7], BEN)
    assert values("bradley_terry", *two) == {7: pytest.approx(2 / 3)}
    # The chance p has the error √(p (1 − p) / games).
    assert errors("bradley_terry", *two) == {7: pytest.approx(math.sqrt(2 / 3 * 1 / 3 / 3))}


def test_two_bad_replies_both_lose_to_the_typical_reply():
    assert values("bradley_terry", said("pairwise", {"both_bad": True}, [7, 3])) == {
        7: pytest.approx(0.25),
        3: pytest.approx(0.25),
    }
    assert values("ranking", said("pairwise", {"both_bad": True}, [7, 3])) == {
        7: pytest.approx(0.25),
        3: pytest.approx(0.25),
    }


def test_ranking_counts_as_its_choices_and_not_as_its_pairs():
    ranking = said("ranking", {"ranks": {"1": 1, "2": 2, "3": 3, "4": 4}}, [1, 2, 3, 4])
    pairs = [
        said("pairwise", {"preference": -3}, [i, j]) for i in range(1, 5) for j in range(i + 1, 5)
    ]
    assert values("bradley_terry", ranking)[1] < values("bradley_terry", *pairs)[1]


@pytest.mark.parametrize("rule", ["mean", "bradley_terry", "ranking", "elo"])
def test_every_rule_keeps_the_order_of_a_ranking(rule):
    found = values(rule, said("ranking", {"ranks": {"1": 2, "2": 1, "3": 3}}, [1, 2, 3]))
    assert found[2] > found[1] > found[3]
    assert all(0 <= value <= 1 for value in found.values())


@pytest.mark.parametrize("rule", ["bradley_terry", "ranking", "elo"])
def test_best_and_worst_enclose_the_other_replies(rule):
    found = values(rule, said("best_worst", {"best": 3, "worst": 1}, [1, 2, 3, 4]))
    assert found[3] > found[2] == pytest.approx(found[4], abs=0.02) and found[4] > found[1]


@pytest.mark.parametrize("rule", ["bradley_terry", "ranking"])
def test_agreement_of_a_second_person_reduces_the_error(rule):
    one = said("pairwise", {"preference": -2}, [7, 3])
    assert (
        errors(rule, one, said("pairwise", {"preference": -2}, [7, 3], BEN))[7]
        < errors(rule, one)[7]
    )


def test_bradley_terry_and_ranking_give_equal_values_for_pairs():
    pairs = [
        said("pairwise", {"preference": p}, list(shown))
        for p, shown in ((-2, (1, 2)), (1, (2, 3)), (0, (1, 3)), (-3, (3, 4)))
    ]
    assert values("ranking", *pairs) == pytest.approx(values("bradley_terry", *pairs), abs=1e-6)


def test_elo_depends_on_the_order_of_the_ratings():
    first = said("pairwise", {"preference": -3}, [1, 2], rating=1)
    second = said("pairwise", {"preference": 3}, [1, 2], rating=2)
    swapped = (
        said("pairwise", {"preference": 3}, [1, 2], rating=1),
        said("pairwise", {"preference": -3}, [1, 2], rating=2),
    )
    assert values("elo", second, first) == values("elo", first, second)
    assert values("elo", first, second)[1] < 0.5 < values("elo", *swapped)[1]


@pytest.mark.parametrize(
    ("answer", "shown", "kind"),
    [
        ({"preference": -1}, [3, 7], 0),
        ({"preference": 0}, [3, 7], 1),
        ({"preference": 2}, [3, 7], 2),
        ({"preference": 1}, [7, 3], 0),
        ({"both_bad": True}, [7, 3], 3),
    ],
)
def test_pair_has_the_same_category_on_either_side(answer, shown, kind):
    assert category("pairwise", answer, shown) == kind


def test_accuracy_of_raters_is_estimated_from_their_ratings():
    random = np.random.default_rng(0)
    right = {ANN: 0.95, BEN: 0.9, CEM: 0.5}
    rows = []
    for rollout in range(200):
        truth = bool(random.random() < 0.5)
        for rater, accuracy in right.items():
            rows.append(
                (
                    rater,
                    {"up": truth if random.random() < accuracy else not truth},
                    [rollout],
                    rollout,
                )
            )
    quality = fitted("thumbs", PEOPLE, rows)
    assert quality.accuracy == pytest.approx(right, abs=0.08)
    shares = quality.share_of_weight()
    assert shares[ANN] > 1 > shares[CEM] and sum(shares.values()) == pytest.approx(3)


def test_without_ratings_no_rater_is_known():
    assert fitted("stars", PEOPLE, []).share_of_weight() == {}
    assert fitted("thumbs", PEOPLE, []).trust(ANN, 1.0).weight == pytest.approx(math.log(4))
