"""Audits of a rater model: its predictions of fresh decisions from before it learned them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

WINDOW = 200  # the newest audits used: mistakes of an early model no longer count
MIN_AUDITS = 30  # the fewest audits for a status
# Pair accuracies from which the status is amber, and green.
AMBER_FROM = 0.70
GREEN_FROM = 0.80
RECENT = 20  # audits compared for a gap or a turn
# Both alarms are checked after every decision, hundreds of times in a run: an event with a chance
# of one in twenty would stop every other good run. Therefore a gap counts by its lower bound, and a
# turn must be far from chance.
# A predicted reward that is above the human one by more than GAP, even at the lower 95 % bound, is
# alarming.
GAP = 0.1
ONE_SIDED = 1.645
# So is a turn: the human reward fell and the predicted one rose by more than TURN, and the two are
# more than FAR standard errors apart.
TURN = 0.05
FAR = 3.0
# Share of different replies in a batch below which they count as few, and the mean reward (4.5
# stars) from which few different replies are fine.
DISTINCT = 0.1
CONTENT = 0.875
DRAWS = 1_000
CONFIDENCE = 0.95


class Light(StrEnum):
    NONE = "none"
    RED = "red"
    AMBER = "amber"
    GREEN = "green"


@dataclass(frozen=True)
class Audit:
    """One fresh decision: the prediction (0 to 1) and the person's value (0 to 1).

    Audits are in order of arrival.
    """

    predicted: float
    rated: float


@dataclass(frozen=True)
class Accuracy:
    """A share with its interval; None if nothing could be counted."""

    share: float | None
    low: float | None
    high: float | None
    decisions: int


def pair_accuracy(audits: Sequence[Audit], seed: int = 0) -> Accuracy:
    """Return the share of pairs with different human values that were predicted in their order.

    An equal prediction counts half. The interval is a bootstrap over decisions, not over pairs:
    pairs share their decisions.
    """
    audits = audits[-WINDOW:]
    predicted = np.array([audit.predicted for audit in audits])
    rated = np.array([audit.rated for audit in audits])
    counts = rated[:, None] > rated[None, :]
    right = counts * (1 + np.sign(predicted[:, None] - predicted[None, :])) / 2
    if not counts.any():
        return Accuracy(None, None, None, len(audits))
    return _with_interval(counts.astype(float), right, seed)


def share_right(shares: Sequence[float], seed: int = 0) -> Accuracy:
    """Return the accuracy of comparisons, each with the share of its pairs that was right."""
    shares = shares[-WINDOW:]
    if not shares:
        return Accuracy(None, None, None, 0)
    return _with_interval(np.eye(len(shares)), np.diag(shares), seed)


def _with_interval(counts: np.ndarray, right: np.ndarray, seed: int) -> Accuracy:
    """Return the share of `right` in `counts`, both (n, n), with a bootstrap interval.

    Entry (i, j) belongs to the pair of decisions i and j. A decision that a sample draws m times
    has weight m, and a pair counts as often as the product of its decisions' weights. If each
    decision counts only with itself, the square root makes that product m.
    """
    n = len(counts)
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(n, [1 / n] * n, size=DRAWS).astype(float)
    between_decisions = counts - np.diag(np.diagonal(counts))
    weights = drawn if between_decisions.any() else np.sqrt(drawn)
    pairs = ((weights @ counts) * weights).sum(1)
    hits = ((weights @ right) * weights).sum(1)
    has_pairs = pairs > 0
    shares = hits[has_pairs] / pairs[has_pairs]
    low, high = np.quantile(shares, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    share = right.sum() / counts.sum()
    return Accuracy(float(share), float(low), float(high), n)


def audit_light(accuracy: Accuracy) -> Light:
    if accuracy.decisions < MIN_AUDITS or accuracy.share is None:
        return Light.NONE
    if accuracy.share < AMBER_FROM:
        return Light.RED
    return Light.AMBER if accuracy.share < GREEN_FROM else Light.GREEN


def gap(audits: Sequence[Audit]) -> float | None:
    """Return predicted minus human value, the mean of the last RECENT audits; None with fewer."""
    last = audits[-RECENT:]
    return _mean(_gaps(last)) if len(last) == RECENT else None


def alarms(
    audits: Sequence[Audit], distinct: float | None, human_mean: float | None
) -> dict[str, str]:
    """Return conditions that need a person, by kind, with texts that say what to do.

    `distinct` is the share of different replies in the newest batch, `human_mean` people's mean
    value of the newest replies.
    """
    alarms = {}
    over = gap(audits)
    if over is not None and over - ONE_SIDED * _error(_gaps(audits[-RECENT:])) > GAP:
        alarms["over_prediction"] = (
            f"Predictions are {over:.2f} above people’s ratings (the last {RECENT} audits). Pause"
            " the run, ask 10 audits, let it refit."
        )
    if _has_turned(audits):
        alarms["turned"] = (
            "People's ratings fall while predictions rise. Pause the run, ask 10 audits, let it"
            " refit."
        )
    if (
        distinct is not None
        and human_mean is not None
        and distinct < DISTINCT
        and human_mean < CONTENT
    ):
        alarms["settled"] = (
            f"Only {distinct:.0%} of the replies differ and people give {1 + 4 * human_mean:.1f}"
            " stars. Ask for two rewrites, go back to an earlier version, or raise the sampling"
            " temperature."
        )
    return alarms


def _has_turned(audits: Sequence[Audit]) -> bool:
    if len(audits) < 2 * RECENT:
        return False
    before = audits[-2 * RECENT : -RECENT]
    after = audits[-RECENT:]
    change = _mean([audit.rated for audit in after]) - _mean([audit.rated for audit in before])
    predicted = _mean([audit.predicted for audit in after]) - _mean(
        [audit.predicted for audit in before]
    )
    error = math.hypot(_error(_gaps(before)), _error(_gaps(after)))
    return change < -TURN and predicted > TURN and predicted - change > FAR * error


def _gaps(audits: Sequence[Audit]) -> list[float]:
    return [audit.predicted - audit.rated for audit in audits]


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
