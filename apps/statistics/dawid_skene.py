"""Truth and raters' reliability from categories alone, by expectation maximisation.

A. P. Dawid and A. M. Skene, Applied Statistics 28 (1979). `confusions` is their model: each rater
has a table of answers by true category. `one_coin` gives each rater only one number, how often the
rater is right, with all mistakes alike; it needs far fewer decisions per rater. Decisions are given
as three arrays of one length: unit, rater and said, each counted from 0.
"""

from dataclasses import dataclass

import numpy as np

ROUNDS = 200
CLOSE = 1e-8  # the change of any truth below which the rounds stop


@dataclass(frozen=True)
class Truth:
    """The estimated truth.

    `units` (units, kinds): how likely each kind is true; `shares` (kinds,) of the kinds;
    `likelihood`: log, of the data.
    """

    units: np.ndarray
    shares: np.ndarray
    likelihood: float


def confusions(
    unit: np.ndarray, rater: np.ndarray, labels: np.ndarray, kinds: int, *, smoothing: float = 0.0
) -> tuple[Truth, np.ndarray]:
    """Return the truth, and each rater's confusion matrix, (raters, true category, label).

    `smoothing` is added to each cell before it is divided; 0 is the paper's maximum likelihood.
    """
    raters = int(rater.max()) + 1
    truth = _majority(unit, labels, kinds)
    before = np.full_like(truth, np.inf)
    for _ in range(ROUNDS):
        shares = truth.mean(0)
        # (rater, label, true category): one scatter of rows.
        cells = np.full((raters, kinds, kinds), smoothing)
        np.add.at(cells, (rater, labels), truth[unit])
        total = cells.sum(1, keepdims=True)
        table = np.divide(cells, total, out=np.full_like(cells, 1 / kinds), where=total > 0)
        truth, likelihood = _expected(unit, _log(table)[rater, labels], _log(shares), len(truth))
        if np.abs(truth - before).max() < CLOSE:
            break
        before = truth
    return Truth(truth, shares, likelihood), table.transpose(0, 2, 1)


def one_coin(
    unit: np.ndarray,
    rater: np.ndarray,
    labels: np.ndarray,
    kinds: int,
    *,
    right: float = 4.0,
    wrong: float = 1.0,
) -> tuple[Truth, np.ndarray]:
    """Return the truth, and for each rater the probability of being right, (raters,).

    `right` and `wrong` are decisions that every rater is assumed to have made before (a Beta
    prior), so that a rater with three decisions is trusted about as much as the average, and truth
    and error cannot be swapped.
    """
    raters = int(rater.max()) + 1
    decisions = np.bincount(rater, minlength=raters)
    truth = _majority(unit, labels, kinds)
    before = np.full_like(truth, np.inf)
    for _ in range(ROUNDS):
        shares = truth.mean(0)
        hits = np.bincount(rater, weights=truth[unit, labels], minlength=raters)
        accuracy = (hits + right) / (decisions + right + wrong)
        wrongly = (1 - accuracy) / max(kinds - 1, 1)
        says = np.repeat(_log(wrongly)[rater, None], kinds, axis=1)
        says[np.arange(len(labels)), labels] = _log(accuracy)[rater]
        truth, likelihood = _expected(unit, says, _log(shares), len(truth))
        if np.abs(truth - before).max() < CLOSE:
            break
        before = truth
    return Truth(truth, shares, likelihood), accuracy


def vote_weights(accuracy: np.ndarray, kinds: int) -> np.ndarray:
    """Return each rater's vote weight, (raters,): the log-odds of being right, at least 0.

    The odds are against one particular mistake; a rater at chance level has weight 0.
    """
    accuracy = np.clip(accuracy, 1e-6, 1 - 1e-6)
    return np.maximum(np.log(accuracy * max(kinds - 1, 1) / (1 - accuracy)), 0.0)


def _majority(unit: np.ndarray, labels: np.ndarray, kinds: int) -> np.ndarray:
    votes = np.zeros((int(unit.max()) + 1, kinds))
    np.add.at(votes, (unit, labels), 1)
    return votes / votes.sum(1, keepdims=True)


def _expected(
    unit: np.ndarray, says: np.ndarray, shares: np.ndarray, units: int
) -> tuple[np.ndarray, float]:
    """Return truth (units, kinds) and log-likelihood.

    They are computed from each decision's log-probability given each truth, (decisions, kinds).
    """
    logs = np.tile(shares, (units, 1))
    np.add.at(logs, unit, says)
    top = logs.max(1, keepdims=True)
    odds = np.exp(logs - top)
    return odds / odds.sum(1, keepdims=True), float((np.log(odds.sum(1)) + top[:, 0]).sum())


def _log(chance: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(chance, 1e-300))
