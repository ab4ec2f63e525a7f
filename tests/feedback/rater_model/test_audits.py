"""The audits' metrics, each compared with a slow way of counting it."""

import itertools
import random

import numpy as np
import pytest

from apps.feedback.rater_model import audits as metrics
from apps.feedback.rater_model.audits import (
    GAP,
    MIN_AUDITS,
    RECENT,
    Accuracy,
    Audit,
    Light,
    alarms,
    audit_light,
    gap,
    pair_accuracy,
)
from bench.raters import RATERS


def audits(n: int, slip: float, seed: int = 0) -> list[Audit]:
    chance = random.Random(seed)
    said = [chance.randrange(5) / 4 for _ in range(n)]
    return [Audit(value + chance.gauss(0, slip), value) for value in said]


def test_pair_accuracy_counts_pairs_with_different_ratings():
    some = audits(40, 0.4)
    pairs = [(a, b) for a, b in itertools.combinations(some, 2) if a.rated != b.rated]
    right = sum((a.predicted - b.predicted) * (a.rated - b.rated) > 0 for a, b in pairs)
    assert pair_accuracy(some).share == pytest.approx(right / len(pairs))


def test_equal_predictions_count_as_half_right():
    assert pair_accuracy([Audit(0.5, 0.0), Audit(0.5, 1.0)]).share == 0.5


def test_interval_matches_the_bootstrap_over_ratings():
    some = audits(30, 0.5)
    found = pair_accuracy(some)
    chance = random.Random(5)
    shares = []
    for _ in range(1_000):
        drawn = chance.choices(some, k=len(some))
        pairs = [(a, b) for a, b in itertools.combinations(drawn, 2) if a.rated != b.rated]
        shares.append(
            sum((a.predicted - b.predicted) * (a.rated - b.rated) > 0 for a, b in pairs)
            / len(pairs)
        )
    shares.sort()
    assert found.low == pytest.approx(shares[25], abs=0.03) and found.high == pytest.approx(
        shares[975], abs=0.03
    )
    assert found.low < found.share < found.high


def test_share_of_right_comparisons_is_counted_with_an_interval():
    found = metrics.share_right([1.0, 0.0, 1.0, 0.5])
    assert found.share == 0.625 and 0 <= found.low < 0.625 < found.high <= 1


@pytest.mark.parametrize(
    ("share", "decisions", "shown"),
    [
        (0.9, MIN_AUDITS - 1, Light.NONE),
        (0.69, 30, Light.RED),
        (0.70, 30, Light.AMBER),
        (0.79, 30, Light.AMBER),
        (0.80, 30, Light.GREEN),
    ],
)
def test_light_follows_accuracy_from_thirty_audits_on(share, decisions, shown):
    assert audit_light(Accuracy(share, 0, 1, decisions)) == shown


def test_light_is_off_when_all_ratings_are_equal():
    assert audit_light(pair_accuracy([Audit(n / 50, 1.0) for n in range(50)])) == Light.NONE


def test_over_prediction_in_the_last_twenty_audits_raises_an_alarm():
    good = [Audit(0.5, 0.5)] * RECENT
    over = [Audit(0.5 + GAP + 0.01, 0.5)] * RECENT
    assert gap(good + over) == pytest.approx(GAP + 0.01) and "over_prediction" in alarms(
        good + over, None, None
    )
    assert not alarms(over + good, None, None)


def test_gap_within_the_noise_of_twenty_audits_raises_no_alarm():
    def over_by(mean: float) -> list[Audit]:
        return [
            Audit(0.5, 0.5 - mean + (0.2 if n % 2 else -0.2)) for n in range(RECENT)
        ]  # standard error .046

    assert gap(over_by(0.17)) > GAP and not alarms(over_by(0.17), None, None)
    assert set(alarms(over_by(0.18), None, None)) == {"over_prediction"}


def test_fewer_than_twenty_audits_give_no_gap():
    assert gap([Audit(0.9, 0.1)] * (RECENT - 1)) is None


def test_falling_ratings_with_rising_predictions_raise_an_alarm():
    before = [Audit(0.4, 0.5)] * RECENT
    after = [Audit(0.49, 0.43)] * RECENT
    assert set(alarms(before + after, None, None)) == {"turned"}
    assert not alarms(after + before, None, None)


def test_few_different_replies_raise_an_alarm_unless_ratings_are_high():
    assert "settled" in alarms([], 0.06, 0.7)
    assert not alarms([], 0.06, 0.95) and not alarms([], 0.3, 0.7) and not alarms([], 0.06, None)


def simulated(seed: int, decisions: int, truths: list[float], over: list[float]) -> list[Audit]:
    """Simulate audits along a run by the benchmark's eight raters: truth and over-prediction are
    interpolated.
    """
    chance = random.Random(seed)
    audits = []
    for n in range(decisions):
        place = n / decisions * (len(truths) - 1)
        mean, bias = (float(np.interp(place, range(len(line)), line)) for line in (truths, over))
        truth = min(1.0, max(0.0, chance.gauss(mean, 0.22 if mean < 0.8 else 0.11)))
        known = mean + 0.5 * (truth - mean) + chance.gauss(0, 0.08)
        rater = chance.randrange(len(RATERS))
        audits.append(
            Audit(
                float(np.interp(known, GRID, USUAL[rater])) + bias,
                (RATERS[rater].stars(truth, chance) - 1) / 4,
            )
        )
    return audits


GRID = [n / 10 for n in range(11)]
USUAL = [
    [sum((r.stars(t, c) - 1) / 4 for _ in range(200)) / 200 for t in GRID]
    for c in [random.Random(9)]
    for r in RATERS
]
# As measured: a good run, and one whose model knew words only and was fooled (true .51 to .32 while
# predicted rose to .66).
GOOD = ([0.4, 0.62, 0.78, 0.86, 0.9, 0.93, 0.95], [0.0] * 7)
FOOLED = ([0.37, 0.44, 0.51, 0.41, 0.32], [0.03, 0.04, 0.06, 0.25, 0.34])


def first_alarm(audits: list[Audit]) -> int | None:
    return next((n for n in range(RECENT, len(audits) + 1) if alarms(audits[:n], None, None)), None)


@pytest.mark.parametrize("decisions", [150, 400])
def test_good_runs_are_seldom_stopped_by_repeated_checks(decisions):
    assert (
        sum(first_alarm(simulated(seed, decisions, *GOOD)) is not None for seed in range(10)) <= 1
    )


def test_run_with_a_fooled_model_is_stopped_before_its_end():
    stopped = [first_alarm(simulated(seed, 100, *FOOLED)) for seed in range(10)]
    assert all(stop is not None and stop <= 90 for stop in stopped)
