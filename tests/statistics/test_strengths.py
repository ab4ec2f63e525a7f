"""Strengths from pairs and rankings: Agresti's baseball data, closed forms, comparison of two
methods, and where no strengths exist.
"""

from itertools import permutations

import numpy as np
import pytest

from apps.statistics.elo import compute_elo, expected
from apps.statistics.plackett_luce import (
    Choice,
    NoStrengths,
    fit_bradley_terry,
    plackett_luce,
    split_ranking,
)
from tests.statistics.published import BASEBALL, TEAMS


def test_strengths_of_the_american_league_of_1987_match_agresti():
    found = fit_bradley_terry(np.array(BASEBALL))
    relative = dict(zip(TEAMS, found.scores - found.scores[-1], strict=True))
    assert relative == pytest.approx(
        {
            "Milwaukee": 1.581,
            "Detroit": 1.436,
            "Toronto": 1.294,
            "New York": 1.248,
            "Boston": 1.108,
            "Cleveland": 0.684,
            "Baltimore": 0.0,
        },
        abs=0.0006,
    )


def test_standard_error_of_a_difference_equals_that_of_logistic_regression():
    """Calculate the same model as a logistic regression without intercept, and invert its
    information matrix as in the textbook.
    """
    wins = np.array(BASEBALL, dtype=float)
    found = fit_bradley_terry(np.array(BASEBALL))
    information = np.zeros((6, 6))
    for one in range(7):
        for other in range(one):
            row = np.zeros(7)
            row[one], row[other] = 1, -1
            chance = 1 / (1 + np.exp(found.scores[other] - found.scores[one]))
            games = wins[one, other] + wins[other, one]
            information += games * chance * (1 - chance) * np.outer(row[:6], row[:6])
    against_baltimore = np.sqrt(np.diag(np.linalg.inv(information)))
    covariance = found.covariance
    ours = [np.sqrt(covariance[i, i] + covariance[6, 6] - 2 * covariance[i, 6]) for i in range(6)]
    assert ours == pytest.approx(against_baltimore)


def test_two_candidates_differ_by_the_logarithm_of_their_win_ratio():
    found = fit_bradley_terry(np.array([[0, 6], [2, 0]]))
    assert found.scores[0] - found.scores[1] == pytest.approx(np.log(3))


def test_single_candidate_with_a_prior_matches_the_closed_form():
    """With 3 wins and 1 loss against the typical one and a prior of half a game each: log(3.5 /
    1.5).
    """
    found = fit_bradley_terry(np.zeros((1, 1)), games=0.5, against_typical=np.array([[3.0, 1.0]]))
    assert found.scores == pytest.approx([np.log(3.5 / 1.5)])
    assert found.errors == pytest.approx([1 / np.sqrt(5 * 0.7 * 0.3)])


def test_candidate_who_always_won_has_no_finite_strength_without_a_prior():
    with pytest.raises(NoStrengths, match="always won"):
        fit_bradley_terry(np.array([[0, 2], [0, 0]]))
    assert np.isfinite(fit_bradley_terry(np.array([[0, 2], [0, 0]]), games=0.5).scores).all()


def test_two_leagues_that_never_met_have_no_common_strengths():
    apart = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    with pytest.raises(NoStrengths):
        fit_bradley_terry(apart)


def test_with_a_prior_an_unrated_candidate_has_score_zero_and_a_larger_error():
    found = fit_bradley_terry(np.array([[0, 3, 0], [0, 0, 0], [0, 0, 0]]), games=0.5)
    assert found.scores[2] == pytest.approx(0)
    assert found.errors[2] > found.errors[0]


def test_plackett_luce_on_pairs_equals_bradley_terry():
    wins = np.array(BASEBALL)
    pairs = [
        Choice(i, (min(i, j), max(i, j)), wins[i, j])
        for i in range(7)
        for j in range(7)
        if wins[i, j]
    ]
    one = plackett_luce(7, pairs)
    other = fit_bradley_terry(wins)
    assert one.scores == pytest.approx(other.scores, abs=1e-6)
    assert one.covariance == pytest.approx(other.covariance, abs=1e-6)
    one = plackett_luce(7, pairs, games=0.5)
    other = fit_bradley_terry(wins, games=0.5)
    assert one.scores == pytest.approx(other.scores, abs=1e-6)
    assert one.covariance == pytest.approx(other.covariance, abs=1e-6)


def test_rankings_weighted_by_the_model_give_its_strengths_back():
    """The likelihood of all 24 rankings of four, each weighted by its own probability, is highest
    at the true strengths.
    """
    truth = np.array([0.9, 0.2, -0.3, -0.8])
    choices = []
    for order in permutations(range(4)):
        chance = np.prod(
            [np.exp(truth[order[i]]) / np.exp(truth[list(order[i:])]).sum() for i in range(3)]
        )
        choices += split_ranking(
            {candidate: place for place, candidate in enumerate(order)}, chance
        )
    assert plackett_luce(4, choices).scores == pytest.approx(truth, abs=1e-6)


def test_ranking_is_split_into_choices_of_the_best_of_the_rest():
    assert split_ranking({4: 1, 7: 3, 9: 2}) == [Choice(4, (4, 7, 9)), Choice(9, (7, 9))]


def test_tied_candidates_get_equal_scores():
    found = plackett_luce(3, split_ranking({0: 1, 1: 1, 2: 2}), games=0.5)
    assert found.scores[0] == pytest.approx(found.scores[1])
    assert found.scores[0] > found.scores[2]


def test_elo_moves_both_ratings_by_the_surprise():
    """With equal ratings half a point is expected: 32 × (1 − 1/2)."""
    assert compute_elo(2, [(0, 1, 1.0)]).tolist() == [1516.0, 1484.0]
    assert expected(1900.0, 1500.0) == pytest.approx(10 / 11)
    again = compute_elo(2, [(0, 1, 1.0), (1, 0, 1.0)])
    assert again[1] == pytest.approx(1484 + 32 * (1 - 1 / (1 + 10 ** (32 / 400))))


def test_typical_opponent_keeps_the_initial_elo_rating():
    assert compute_elo(1, [(0, None, 0.0)]).tolist() == [1484.0]
