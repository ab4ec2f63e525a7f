"""Standings: strengths compared with a slow direct computation, wins, agreement, sides, domains,
and why there are none.
"""

from itertools import product
from math import exp, log

import numpy as np
import pytest

from apps.evaluation.arena.standings import compute_standings, fit_strengths
from apps.evaluation.arena.voting import take_back
from apps.evaluation.arena.writing import COLUMNS, votes_file
from apps.evaluation.models import Vote
from tests.evaluation.arena.contests import asked, contest, judge_all, say

pytestmark = pytest.mark.django_db


def climbed(wins: np.ndarray) -> np.ndarray:
    """Return strengths by plain gradient ascent on the likelihood, centred on their mean."""
    scores = np.zeros(len(wins))
    for _ in range(20_000):
        slope = np.zeros(len(wins))
        for i, j in product(range(len(wins)), repeat=2):
            chance = 1 / (1 + exp(scores[j] - scores[i]))
            slope[i] += wins[i, j] * (1 - chance)
            slope[j] -= wins[i, j] * (1 - chance)
        scores += 0.02 * slope
    return scores - scores.mean()


def test_strengths_maximize_the_likelihood_of_the_votes():
    wins = np.array([[0, 7, 4.5, 6], [3, 0, 5, 8], [5.5, 5, 0, 3], [2, 1, 4, 0]])
    strengths, why = fit_strengths(wins)
    slow = climbed(wins)
    assert why == [""] * 4
    for found, score in zip(strengths, slow, strict=True):
        assert found.points == pytest.approx(400 * score / log(10), abs=0.01)
        assert found.low < found.points < found.high
    field = [sum(1 / (1 + exp(other - one)) for other in slow) - 0.5 for one in slow]
    assert [found.chance for found in strengths] == pytest.approx(
        [sum_ / 3 for sum_ in field], abs=1e-4
    )


def test_interval_of_a_lead_matches_the_standard_error_of_its_counts():
    [ahead, behind], _ = fit_strengths(np.array([[0, 30], [10, 0]]))
    lead = ahead.points - behind.points
    assert lead == pytest.approx(400 * np.log10(3), abs=0.01)
    # The standard error of a log odds is √(1/30 + 1/10); each of two stands half of it from their
    # mean.
    assert ahead.high - ahead.points == pytest.approx(
        1.95996 * 400 / log(10) * (1 / 30 + 1 / 10) ** 0.5 / 2, abs=0.01
    )


@pytest.mark.parametrize(
    ("wins", "words"),
    [
        ([[0, 0], [0, 0]], ["no votes yet"] * 2),
        ([[0, 3], [0, 0]], ["won every time", "lost every time"]),
        (
            [[0, 1, 2], [1, 0, 3], [0, 0, 0]],
            ["similar contestants won", "similar contestants won", "lost every time"],
        ),
        (
            [[0, 2, 2], [0, 0, 2], [0, 0, 0]],
            ["won every time", "against some contestants", "lost every time"],
        ),
        ([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], ["not yet compared"] * 4),
    ],
)
def test_missing_strengths_have_a_reason_for_each_contestant(wins, words):
    strengths, why = fit_strengths(np.array(wins, dtype=float))
    assert strengths == [None] * len(wins)
    assert all(word in one for word, one in zip(words, why, strict=True))


@pytest.fixture
def arena(run, finish, alice):
    return contest(run, finish, alice, contestants=3)


def test_current_votes_are_counted_for_both_contestants(arena, bob):
    places = {one.pk: one.place for one in arena.contestants.all()}

    def decide(
        pair,
    ):  # the base loses to 1 but for one tie, 1 and 2 win alternately, 0 and 2 are both bad
        met = places[pair.pairing.first_id], places[pair.pairing.second_id]
        return {
            (0, 1): "second" if pair.index else "tie",
            (1, 2): "first" if pair.sample else "second",
            (0, 2): "bad",
        }[met]

    judge_all(bob, arena, decide)
    found = compute_standings(arena)
    score = {
        row.contestant.place: (row.score.won, row.score.tied, row.score.lost, row.score.bad)
        for row in found.rows
    }
    assert score == {0: (0, 10, 6, 8), 1: (10, 2, 4, 0), 2: (4, 8, 4, 8)}
    assert [row.contestant.place for row in found.rows] == [1, 2, 0] and found.has_strengths
    assert (found.votes, found.raters, found.twice) == (24, 1, 0)
    assert sum(row.strength.points for row in found.rows) == pytest.approx(0, abs=1e-6)


def test_changed_and_withdrawn_votes_count_in_their_latest_state(arena, bob):
    one, other = asked(bob, arena, 2)
    say(bob, arena, one, "first")
    say(bob, arena, one, "second")
    gone = say(bob, arena, other, "first")
    take_back(bob, arena, gone.client_uuid, gone.client_uuid.__class__(int=3))
    found = compute_standings(arena)
    assert found.votes == 1 and found.against[one.pairing.first_id, one.pairing.second_id].lost == 1


def test_agreement_is_computed_from_pairs_with_votes_of_two_people(arena, alice, bob):
    pairs = asked(bob, arena, 4)
    for pair, hers, his in zip(
        pairs,
        ("first", "first", "tie", "second"),
        ("first", "second", "bad", "second"),
        strict=True,
    ):
        say(alice, arena, pair, hers)
        say(bob, arena, pair, his)
    found = compute_standings(arena)
    assert found.twice == 4 and found.agreement.value == pytest.approx(
        0.75
    )  # a tie and both bad agree: neither is better
    assert found.alpha.value == pytest.approx(1 - 7 * 2 / (2 * (3 * 3 + 3 * 2 + 3 * 2)))


def test_share_of_left_choices_is_counted(arena, bob):
    judge_all(bob, arena, lambda pair: "first")
    lefts = Vote.objects.filter(first_on_left=True).count()
    found = compute_standings(arena)
    assert (found.left.won, found.left.lost, found.left.tied) == (lefts, 24 - lefts, 0)


def test_domain_scores_count_only_tasks_of_the_domain(arena, bob, taskset):
    taskset.tasks.filter(index__lt=3).update(domain="maths")
    judge_all(bob, arena, lambda pair: "first")
    found = compute_standings(arena)
    first = arena.contestants.get(place=0)
    assert {name: scores[first.pk].won for name, scores in found.domains.items()} == {
        "": 4,
        "maths": 12,
    }


def test_vote_file_contains_every_vote_with_its_state(arena, bob):
    one, other = asked(bob, arena, 2)
    vote = say(bob, arena, one, "first")
    gone = say(bob, arena, other, "tie")
    take_back(bob, arena, gone.client_uuid, gone.client_uuid.__class__(int=3))
    head, *rows = b"".join(votes_file(arena)).decode().splitlines()
    assert head == ",".join(COLUMNS)
    rows = [dict(zip(COLUMNS, row.split(","), strict=True)) for row in rows]
    assert [(row["choice"] in ("left", "right"), row["stands"]) for row in rows] == [
        (True, "1"),
        (False, "0"),
        (False, "0"),
    ]
    assert (
        rows[0]["better"] == rows[0][rows[0]["choice"]] == vote.pairing.first.run.slug
        and rows[0]["milliseconds"] == "1200"
    )
    assert rows[2]["choice"] == "back" and rows[2]["better"] == ""
