"""Truth and raters from categories: the paper's anaesthetists, a simulation, and a simple
calculation.
"""

import numpy as np
import pytest

from apps.statistics.dawid_skene import confusions, one_coin, vote_weights
from tests.statistics.published import ANAESTHETISTS, OBSERVER_OF_COLUMN


@pytest.fixture(scope="module")
def anaesthetists():
    unit = np.repeat(np.arange(len(ANAESTHETISTS)), len(OBSERVER_OF_COLUMN))
    rater = np.tile(OBSERVER_OF_COLUMN, len(ANAESTHETISTS))
    said = np.array([int(kind) - 1 for patient in ANAESTHETISTS for kind in patient])
    return unit, rater, said


def simulated(accuracy, units=600, per_unit=3, kinds=3, seed=0):
    random = np.random.default_rng(seed)
    truth = random.integers(0, kinds, units)
    unit = np.repeat(np.arange(units), per_unit)
    rater = np.concatenate(
        [random.choice(len(accuracy), per_unit, replace=False) for _ in range(units)]
    )
    right = random.random(len(unit)) < np.asarray(accuracy)[rater]
    said = np.where(
        right, truth[unit], (truth[unit] + random.integers(1, kinds, len(unit))) % kinds
    )
    return unit, rater, said, truth


def test_class_shares_match_the_paper(anaesthetists):
    truth, _ = confusions(*anaesthetists, kinds=4)
    assert truth.shares == pytest.approx([0.40, 0.42, 0.11, 0.07], abs=0.005)


def test_errors_of_the_first_anaesthetist_match_the_paper(anaesthetists):
    _, table = confusions(*anaesthetists, kinds=4)
    assert table[0, 0] == pytest.approx([0.89, 0.11, 0.00, 0.00], abs=0.005)
    assert table[0, 1] == pytest.approx([0.07, 0.88, 0.05, 0.00], abs=0.005)


def test_rows_of_each_raters_confusion_table_sum_to_one(anaesthetists):
    _, table = confusions(*anaesthetists, kinds=4)
    assert table.shape == (5, 4, 4)
    assert table.sum(2) == pytest.approx(np.ones((5, 4)))


def confusions_by_loops(unit, rater, said, kinds, rounds):
    """Calculate the paper's equations 2.3 to 2.5, decision by decision."""
    units = max(unit) + 1
    raters = max(rater) + 1
    decisions = list(zip(unit.tolist(), rater.tolist(), said.tolist(), strict=True))
    truth = np.zeros((units, kinds))
    for u, _, s in decisions:
        truth[u, s] += 1
    truth /= truth.sum(1, keepdims=True)
    for _ in range(rounds):
        shares = truth.mean(0)
        table = np.zeros((raters, kinds, kinds))
        for u, r, s in decisions:
            for true in range(kinds):
                table[r, true, s] += truth[u, true]
        table /= table.sum(2, keepdims=True)
        truth = np.tile(shares, (units, 1))
        for u, r, s in decisions:
            for true in range(kinds):
                truth[u, true] *= table[r, true, s]
        truth /= truth.sum(1, keepdims=True)
    return truth


def test_fast_calculation_equals_the_simple_one(anaesthetists):
    truth, _ = confusions(*anaesthetists, kinds=4)
    assert truth.units == pytest.approx(confusions_by_loops(*anaesthetists, 4, 150), abs=1e-5)


def test_accuracy_of_each_rater_is_recovered():
    accuracy = [0.95, 0.9, 0.8, 0.7, 0.6, 0.35]
    unit, rater, said, truth = simulated(accuracy)
    found, estimated = one_coin(unit, rater, said, 3)
    assert estimated == pytest.approx(accuracy, abs=0.06)
    majority = np.array(
        [np.bincount(said[unit == u], minlength=3).argmax() for u in range(len(truth))]
    )
    assert (found.units.argmax(1) == truth).mean() > (majority == truth).mean() + 0.02


def test_rater_with_one_decision_gets_a_moderate_accuracy():
    unit, rater, said, _ = simulated([0.9, 0.9, 0.9])
    newcomer = (np.append(unit, 0), np.append(rater, 3), np.append(said, (said[0] + 1) % 3))
    _, estimated = one_coin(*newcomer, 3)
    assert 0.6 < estimated[3] < 0.8


def test_decisions_of_a_single_rater_are_taken_as_the_truth():
    truth, accuracy = one_coin(np.array([0, 1, 2]), np.zeros(3, int), np.array([0, 1, 0]), 2)
    assert truth.units.argmax(1).tolist() == [0, 1, 0]
    assert np.isfinite(accuracy).all()


def test_vote_weight_is_the_log_odds_of_being_right_and_zero_at_or_below_chance():
    # Two kinds, 90 %: log 9. Three kinds, 50 %: two possible errors, so log 2. At or below
    # chance: 0.
    assert vote_weights(np.array([0.9, 0.5, 0.3]), 2) == pytest.approx([np.log(9), 0, 0])
    assert vote_weights(np.array([0.5, 1 / 3]), 3) == pytest.approx([np.log(2), 0], abs=1e-9)
