"""Calibration metrics of a scorer compared with a manual and a simple slow calculation, and where
they are undefined.
"""

import random
from itertools import combinations
from statistics import correlation, mean

import pytest

from apps.statistics.agreement import cohen_kappa
from apps.statistics.calibration import MIN_LABELS, JudgedReply, compute_calibration, scale_to_range


def rows_of(pairs, **more):
    """Return judged replies for pairs of (scorer, people), two per group."""
    return [
        JudgedReply(n, n // 2, scorer, people, **more) for n, (scorer, people) in enumerate(pairs)
    ]


def by_chance(count, seed=1, levels=5):
    """Return groups of four, judged by a scorer that is often right and prefers long replies."""
    chance = random.Random(seed)
    rows = []
    for n in range(count):
        people = chance.randrange(levels) / (levels - 1)
        length = chance.randint(5, 200)
        scorer = min(1.0, max(0.0, people + chance.gauss(0, 0.3) + length / 1000))
        rows.append(JudgedReply(n, n // 4, round(scorer, 1), people, length))
    return rows


@pytest.mark.parametrize(
    ("value", "low", "high", "place"),
    [(-0.5, -1, 0, 0.5), (0.5, -0.5, 0.5, 1), (2, 0, 1, 1), (3, 3, 3, 0)],
)
def test_value_is_scaled_to_its_range(value, low, high, place):
    assert scale_to_range(value, low, high) == place


def test_accuracy_and_kappa_equal_a_manual_calculation():
    """Ten labels: 4 good judged good, 1 good judged bad, 3 bad judged bad, 2 bad judged good.

    κ = (.7 − .5) / (1 − .5).
    """
    found = compute_calibration(
        rows_of([(0.9, 1)] * 4 + [(0.1, 0.75)] + [(0.2, 0)] * 3 + [(0.8, 0.25)] * 2)
    )
    assert found.accuracy.value == pytest.approx(0.7)
    assert found.kappa.value == pytest.approx(0.4)
    assert found.accuracy.low < 0.7 < found.accuracy.high


def test_kappa_of_a_textbooks_fifty_proposals():
    """Two readers of 50 proposals, 20 yes–yes, 5 yes–no, 10 no–yes, 15 no–no: .40 (Cohen's kappa,
    the usual worked example).
    """
    table = [((1, 1), 20), ((0, 1), 5), ((1, 0), 10), ((0, 0), 15)]
    assert compute_calibration(
        rows_of([pair for pair, times in table for _ in range(times)])
    ).kappa.value == pytest.approx(0.4)


def test_constant_undecided_scorer_has_accuracy_one_half_and_kappa_zero():
    found = compute_calibration(rows_of([(0.5, n % 2) for n in range(20)]))
    assert (found.accuracy.value, found.kappa.value, found.order.value) == (0.5, 0.0, 0.5)
    assert found.rank.value is None and "gives all replies the same value" in found.rank.why


def test_neutral_labels_of_people_count_as_undecided():
    found = compute_calibration(rows_of([(1, 1)] * 6 + [(0, 0)] * 6 + [(1, 0.5)] * 8))
    assert (found.labels, found.undecided, found.accuracy.value, found.accuracy.of) == (
        20,
        8,
        1.0,
        12,
    )


@pytest.mark.parametrize("seed", range(3))
def test_all_metrics_equal_a_simple_slow_calculation(seed):
    rows = by_chance(120, seed)
    found = compute_calibration(rows)
    decided = [row for row in rows if row.people != 0.5 and row.scorer != 0.5]
    assert compute_calibration(decided).kappa.value == pytest.approx(
        cohen_kappa(
            [row.scorer > 0.5 for row in decided], [row.people > 0.5 for row in decided], 2
        ).value
    )
    pairs = [
        (a, b) for a, b in combinations(rows, 2) if a.group == b.group and a.people != b.people
    ]
    right = [
        0.5 if a.scorer == b.scorer else (a.scorer > b.scorer) == (a.people > b.people)
        for a, b in pairs
    ]
    assert (found.order.value, found.order.of) == (pytest.approx(mean(right)), len(pairs))
    ranks = [ranked([getattr(row, name) for row in rows]) for name in ("scorer", "people")]
    assert found.rank.value == pytest.approx(correlation(*ranks))
    assert found.shift.value == pytest.approx(mean(row.scorer - row.people for row in rows))


def ranked(values):
    """Return mid-ranks by counting lower and equal values."""
    return [
        sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values
    ]


def test_scorer_that_prefers_long_replies_is_detected_and_a_fair_one_is_not():
    """It gives a tenth more per doubling of the length; half have 8 tokens and half 32, two
    doublings apart.
    """
    fair = [JudgedReply(n, n // 2, people := n % 2, people, (8, 32)[n // 2 % 2]) for n in range(40)]
    leaning = [
        JudgedReply(
            r.rollout,
            r.group,
            r.scorer / 2 + (0.2 if r.length == 32 else 0),
            r.people / 2,
            r.length,
        )
        for r in fair
    ]
    found = compute_calibration(leaning)
    none = compute_calibration(fair)
    assert (found.longer.value, found.doubling.value, found.length.value) == pytest.approx(
        (0.2, 0.1, 1.0)
    )
    assert (none.longer.value, none.doubling.value) == pytest.approx((0.0, 0.0))
    assert none.length.value is None and "the same everywhere" in none.length.why


def test_replies_of_equal_length_show_no_length_bias():
    found = compute_calibration(rows_of([(1, 1), (0, 0)] * 8, length=7))
    assert found.longer.value is None and found.longer.why == "all replies have the same length"


def test_duel_judge_that_prefers_the_first_reply_is_detected():
    """Each pair is shown in both orders; the judge takes the first three times out of four."""
    torn = ((1, 2, 1.0), (2, 2, 0.0))
    won = ((1, 2, 1.0), (2, 2, 1.0))
    lost = ((2, 2, 0.0), (1, 2, 0.0))
    votes = (torn, torn, won, lost)
    rows = [
        JudgedReply(n, n // 2, mean(vote for *_, vote in votes[n % 4]), 0.5, votes=votes[n % 4])
        for n in range(40)
    ]
    found = compute_calibration(rows)
    assert (found.first.value, found.first.of) == (0.75, 40)
    assert found.earlier.value == pytest.approx(0.5)
    assert found.first.low > 0.5


def test_ranking_judge_that_prefers_the_top_of_the_list_is_detected():
    """In lists of three, the middle place belongs to neither half."""
    rows = [
        JudgedReply(
            n, n // 3, 0, people := n / 90, votes=((n % 3 + 1, 3, people + (0.3, 0.1, 0.0)[n % 3]),)
        )
        for n in range(60)
    ]
    assert compute_calibration(rows).earlier.value == pytest.approx(0.3)


def test_scorer_of_single_replies_has_no_position_bias():
    found = compute_calibration(rows_of([(1, 1), (0, 0)] * 8))
    assert found.earlier.value is None and "one reply at a time" in found.earlier.why


def test_calibration_bins_compare_scorer_values_with_people():
    """People rate 6 of 10 replies at .95 good, and none of 10 at .05.

    ECE = (|.95 − .6| + |.05 − 0|) / 2.
    """
    found = compute_calibration(rows_of([(0.95, n < 6) for n in range(10)] + [(0.05, 0)] * 10))
    assert [(one.low, one.high, one.count, one.scorer, one.people) for one in found.bins] == [
        (0.0, 0.1, 10, pytest.approx(0.05), 0.0),
        (0.9, 1.0, 10, pytest.approx(0.95), pytest.approx(0.6)),
    ]
    assert found.error.value == pytest.approx(0.2)


@pytest.mark.parametrize("count", [0, 1, MIN_LABELS - 1])
def test_every_metric_says_how_many_labels_it_needs_if_there_are_too_few(count):
    found = compute_calibration(rows_of([(n % 2, n % 2) for n in range(count)], length=9))
    for name in (
        "accuracy",
        "kappa",
        "order",
        "rank",
        "shift",
        "longer",
        "doubling",
        "length",
        "error",
    ):
        metric = getattr(found, name)
        assert metric.value is None and metric.why.startswith(f"needs {MIN_LABELS} "), name
    assert sum(one.count for one in found.bins) == count


def test_kappa_is_undefined_if_all_labels_are_good():
    found = compute_calibration(rows_of([(1, 1)] * 12))
    assert found.accuracy.value == 1.0 and found.accuracy.low < 0.8, (
        "twelve right answers are no certainty"
    )
    assert found.kappa.value is None and "agreement by chance" in found.kappa.why


def test_grouped_replies_widen_the_interval_of_a_metric():
    same = [JudgedReply(n, n % 5, 1 if n % 5 < 2 else 0, (n // 5) % 2) for n in range(200)]
    grouped = compute_calibration(same)
    single = compute_calibration(
        [JudgedReply(r.rollout, r.rollout, r.scorer, r.people) for r in same]
    )
    assert grouped.shift.high - grouped.shift.low > 1.5 * (single.shift.high - single.shift.low)


def test_calibration_handles_ten_thousand_labels():
    found = compute_calibration(by_chance(10_000))
    assert found.labels == 10_000 and found.rank.low < found.rank.value < found.rank.high
