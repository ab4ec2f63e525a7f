"""Agreement compared with published examples and a simple calculation; where it is undefined."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.statistics.agreement import (
    cohen_kappa,
    count_values,
    fleiss_kappa,
    kappa_of_table,
    krippendorff_alpha,
    percent_agreement,
)
from tests.statistics.published import FLEISS, KRIPPENDORFF

LEVELS = ("nominal", "ordinal", "interval")


def table_of(rows):
    """Return the counts of raters' rows (0: not decided)."""
    decided = [(unit, value) for row in rows for unit, value in enumerate(row) if value]
    return count_values([unit for unit, _ in decided], [value for _, value in decided])


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_of_krippendorffs_example_with_missing_decisions(level, published):
    assert krippendorff_alpha(*table_of(KRIPPENDORFF), level).value == pytest.approx(
        published, abs=0.0005
    )


def test_unit_with_a_single_decision_is_not_counted():
    metric = krippendorff_alpha(*table_of(KRIPPENDORFF), "nominal")
    assert (metric.units, metric.decisions) == (11, 40)


def test_fleiss_kappa_of_the_psychiatric_diagnoses():
    counts, _ = count_values(
        np.repeat(np.arange(30), 6), [int(kind) for patient in FLEISS for kind in patient]
    )
    # The paper, which rounds at each step, gives .430.
    assert fleiss_kappa(counts).value == pytest.approx(0.430, abs=0.0015)


def test_cohens_kappa_of_the_papers_200_cases():
    """Jacob Cohen, Educational and Psychological Measurement 20 (1960), Table 2."""
    assert kappa_of_table(
        np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    ).value == pytest.approx(0.492, abs=0.0005)


def test_weighted_kappa_of_the_papers_example():
    """Jacob Cohen, Psychological Bulletin 70 (1968): shares of 100 cases, the paper's weights."""
    shares = np.array([[44, 7, 9], [5, 20, 5], [1, 3, 6]])
    weights = np.array([[0.0, 1, 3], [1, 0, 6], [3, 6, 0]])
    assert kappa_of_table(shares, weights).value == pytest.approx(0.348, abs=0.0005)


def test_kappa_of_decisions_equals_that_of_their_table():
    first = [0, 0, 1, 2, 2, 1]
    second = [0, 1, 1, 2, 0, 1]
    table = np.zeros((3, 3))
    for row, column in zip(first, second, strict=True):
        table[row, column] += 1
    for weights in (None, "linear", "quadratic"):
        assert cohen_kappa(first, second, 3, weights) == kappa_of_table(table, weights)


def test_percent_agreement_counts_equal_pairs():
    counts, _ = table_of([[1, 1, 2], [1, 2, 2], [1, 2, 0]])
    # Equal pairs: in unit 0 all three, in unit 1 one of three, in unit 2 its only one.
    assert percent_agreement(counts).value == pytest.approx((1 + 1 / 3 + 1) / 3)


@pytest.mark.parametrize(
    "metric",
    [percent_agreement, fleiss_kappa, lambda counts: krippendorff_alpha(counts, [1.0], "nominal")],
)
def test_agreement_of_a_single_rater_is_undefined_with_a_reason(metric):
    counts, _ = table_of([[1, 1, 1]])
    assert metric(counts).value is None
    assert "no item has two ratings" in metric(counts).why


def test_agreement_without_decisions_is_undefined():
    counts, kinds = count_values([], [])
    assert percent_agreement(counts).value is None
    assert krippendorff_alpha(counts, kinds, "interval").value is None


@pytest.mark.parametrize("level", LEVELS)
def test_agreement_beyond_chance_is_undefined_if_all_ratings_are_equal(level):
    counts, kinds = table_of([[3, 3, 3], [3, 3, 3]])
    assert percent_agreement(counts).value == 1
    for metric in (
        krippendorff_alpha(counts, kinds, level),
        fleiss_kappa(counts),
        kappa_of_table(np.array([[5, 0], [0, 0]])),
    ):
        assert metric.value is None
        assert "all ratings are equal" in metric.why


def alpha_by_pairs(rows, level):
    """Calculate alpha by its definition, pair by pair: the distance of two decisions on one unit,
    relative to that of any two decisions.
    """
    units = [[row[unit] for row in rows if row[unit]] for unit in range(len(rows[0]))]
    units = [values for values in units if len(values) > 1]
    pool = [value for values in units for value in values]

    def apart(one, other):
        if level == "nominal":
            return float(one != other)
        if level == "interval":
            return float(one - other) ** 2
        low, high = sorted((one, other))
        within = sum(low <= value <= high for value in pool)
        return (within - (pool.count(low) + pool.count(high)) / 2) ** 2 if low != high else 0.0

    observed = sum(
        2 * apart(*pair) / (len(values) - 1) for values in units for pair in combinations(values, 2)
    ) / len(pool)
    expected = sum(2 * apart(*pair) for pair in combinations(pool, 2)) / (
        len(pool) * (len(pool) - 1)
    )
    return 1 - observed / expected


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=2, max_size=4),
    st.sampled_from(LEVELS),
)
def test_alpha_equals_its_definition_pair_by_pair(rows, level):
    counts, kinds = table_of(rows)
    metric = krippendorff_alpha(counts, kinds, level)
    if metric.value is None:
        assert metric.why
    else:
        assert metric.value == pytest.approx(alpha_by_pairs(rows, level))


@pytest.mark.parametrize("level", LEVELS)
def test_rows_with_counts_give_the_same_alpha_as_repeated_rows(level):
    listed = np.random.default_rng(2).integers(0, 3, (200, 3)).astype(float)
    rows, times = np.unique(listed, axis=0, return_counts=True)
    counted_once = krippendorff_alpha(rows, [1.0, 2.0, 4.0], level, times.astype(float))
    whole = krippendorff_alpha(listed, [1.0, 2.0, 4.0], level)
    assert counted_once.value == pytest.approx(whole.value)
    assert (counted_once.units, counted_once.decisions) == (whole.units, whole.decisions)


def test_random_decisions_have_an_alpha_of_zero():
    random = np.random.default_rng(0)
    units = random.integers(0, 50_000, 200_000)
    values = random.integers(1, 6, 200_000)
    assert krippendorff_alpha(*count_values(units, values), "interval").value == pytest.approx(
        0, abs=0.01
    )
