"""Aggregation rules: several people's decisions become one value per rollout, with its error.

Values are from 0 (worst) to 1, errors are standard errors.

    mean           mean of the decisions' values of a rollout
    weighted       the same, weighted by the rater's reliability and, on scales, without the
                   rater's bias
    bradley_terry  strength from pairs; rankings and best–worst count as the pairs they imply
    ranking        strength from rankings (Plackett–Luce); pairs count as rankings of two
    elo            the same pairs as bradley_terry, one after the other; it has no standard error

A strength becomes a value as the chance to beat a typical reply (strength 0). Decisions about one
rollout (stars, thumbs, …) are games against that typical reply, won by the rollout's value. If a
comparison calls both replies bad, both lose to the typical reply.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from apps.feedback.forms import Answer
from apps.feedback.rater_quality import Quality, WeightedDecision
from apps.statistics.elo import START, compute_elo, expected
from apps.statistics.plackett_luce import (
    Choice,
    Strengths,
    fit_bradley_terry,
    plackett_luce,
    split_ranking,
)

# games won and lost against a typical reply beforehand: a weak prior that keeps strengths finite
GAMES = 0.5


@dataclass(frozen=True)
class DecidedValues:
    """One decision: its rater, its answer, and the value of each rollout."""

    rating: int
    rater: int
    form: str
    answer: Answer
    shown: Sequence[int]
    values: Mapping[int, float]


@dataclass(frozen=True)
class AggregateValue:
    """The value of a rollout; `error` is the standard error, None if it is unknown."""

    value: float
    error: float | None = None


Qualities = Mapping[str, Quality]  # by form


def mean(decided: Sequence[DecidedValues], _: Qualities) -> dict[int, AggregateValue]:
    """Return the mean; its standard error needs two decisions."""
    means = {}
    for rollout, values in _by_rollout(decided).items():
        numbers = [value for _, value in values]
        means[rollout] = AggregateValue(math.fsum(numbers) / len(numbers), _error_of_mean(numbers))
    return means


def _error_of_mean(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


def weighted(decided: Sequence[DecidedValues], qualities: Qualities) -> dict[int, AggregateValue]:
    """Return the mean weighted by the raters' precision, with the error that this implies."""
    means = {}
    for rollout, values in _by_rollout(decided).items():
        trusted = [
            qualities[decision.form].trust(decision.rater, value) for decision, value in values
        ]
        means[rollout] = _weighted_mean(trusted)
    return means


def _weighted_mean(trusted: Sequence[WeightedDecision]) -> AggregateValue:
    total = math.fsum(trust.weight for trust in trusted)
    value = math.fsum(trust.weight * trust.value for trust in trusted) / total
    variance = math.fsum(trust.weight**2 * trust.variance for trust in trusted)
    return AggregateValue(min(max(value, 0.0), 1.0), math.sqrt(variance) / total)


def by_strength(decided: Sequence[DecidedValues], _: Qualities) -> dict[int, AggregateValue]:
    """Return values by Bradley and Terry's model."""
    place = _places(decided)
    wins = np.zeros((len(place), len(place)))
    typical = np.zeros((len(place), 2))
    for game in games(decided):
        first = place[game.first]
        if game.second is None:
            typical[first] += game.weight * np.array([game.result, 1 - game.result])
        else:
            wins[first, place[game.second]] += game.weight * game.result
            wins[place[game.second], first] += game.weight * (1 - game.result)
    return _aggregate_values(place, fit_bradley_terry(wins, games=GAMES, against_typical=typical))


def by_ranking(decided: Sequence[DecidedValues], _: Qualities) -> dict[int, AggregateValue]:
    """Return values by Plackett and Luce's model.

    A ranking counts as one rating, not as many as it has pairs.
    """
    place = _places(decided)
    choices = []
    typical = np.zeros((len(place), 2))
    for decision in decided:
        if ranks := ranks_by_rollout(decision):
            choices += split_ranking({place[rollout]: rank for rollout, rank in ranks.items()})
        else:
            for game in games([decision]):
                if game.second is None:
                    typical[place[game.first]] += [game.result, 1 - game.result]
                else:
                    choices += _graded(place[game.first], place[game.second], game.result)
    return _aggregate_values(
        place, plackett_luce(len(place), choices, games=GAMES, against_typical=typical)
    )


def _graded(first: int, second: int, result: float) -> list[Choice]:
    pair = (min(first, second), max(first, second))
    return [
        Choice(best, pair, share)
        for best, share in ((first, result), (second, 1 - result))
        if share > 0
    ]


def by_elo(decided: Sequence[DecidedValues], _: Qualities) -> dict[int, AggregateValue]:
    """Return values by Elo's rating, in the order in which the decisions came."""
    place = _places(decided)
    results = [
        (place[game.first], None if game.second is None else place[game.second], game.result)
        for game in games(sorted(decided, key=lambda decision: decision.rating))
    ]
    points = compute_elo(len(place), results)
    return {
        rollout: AggregateValue(float(expected(points[at], START))) for rollout, at in place.items()
    }


RULES: dict[str, Callable[[Sequence[DecidedValues], Qualities], dict[int, AggregateValue]]] = {
    "mean": mean,
    "weighted": weighted,
    "bradley_terry": by_strength,
    "ranking": by_ranking,
    "elo": by_elo,
}


@dataclass(frozen=True)
class Game:
    """A game of `first` against `second` (None: a typical reply).

    `result` is 1 if `first` won, 1/2 for a tie, 0 if it lost.
    """

    first: int
    second: int | None
    result: float
    weight: float = 1.0


def games(decided: Sequence[DecidedValues]) -> Iterator[Game]:
    """Yield the decisions as games of two.

    A ranking of k implies k (k − 1) / 2 games, which together weigh as much as its k − 1 choices.
    """
    for decision in decided:
        if decision.form == "pairwise":
            yield from _of_pair(decision)
        elif ranks := ranks_by_rollout(decision):
            for better, worse in combinations(sorted(ranks, key=ranks.__getitem__), 2):
                yield Game(
                    better, worse, 0.5 if ranks[better] == ranks[worse] else 1.0, 2 / len(ranks)
                )
        else:
            for rollout, value in decision.values.items():
                yield Game(rollout, None, value)


def _of_pair(decision: DecidedValues) -> Iterator[Game]:
    first, second = decision.shown
    if "both_bad" in decision.answer:
        yield from (Game(first, None, 0.0), Game(second, None, 0.0))
    else:
        yield Game(first, second, decision.values[first])


def ranks_by_rollout(decision: DecidedValues) -> dict[int, int]:
    """Return ranks by rollout, 1 the best, of a decision that orders several; otherwise nothing."""
    if decision.form == "ranking":
        return {int(rollout): rank for rollout, rank in decision.answer["ranks"].items()}
    if decision.form == "best_worst":
        return dict.fromkeys(decision.shown, 2) | {
            decision.answer["best"]: 1,
            decision.answer["worst"]: 3,
        }
    return {}


def _by_rollout(decided: Sequence[DecidedValues]) -> dict[int, list[tuple[DecidedValues, float]]]:
    decisions = defaultdict(list)
    for decision in decided:
        for rollout, value in decision.values.items():
            decisions[rollout].append((decision, value))
    return decisions


def _places(decided: Sequence[DecidedValues]) -> dict[int, int]:
    return {
        rollout: at
        for at, rollout in enumerate(
            sorted({rollout for decision in decided for rollout in decision.values})
        )
    }


def _aggregate_values(place: Mapping[int, int], strengths: Strengths) -> dict[int, AggregateValue]:
    chances = 1 / (1 + np.exp(-strengths.scores))
    errors = strengths.errors
    return {
        r: AggregateValue(float(chances[at]), float(chances[at] * (1 - chances[at]) * errors[at]))
        for r, at in place.items()
    }
