"""Strengths from choices: Bradley–Terry from pairs, Plackett–Luce from rankings.

The strengths (logarithms, `scores`) of k candidates make the choices "this one, out of these" most
likely. They are fitted by Hunter's minorisation (D. R. Hunter, Annals of Statistics 32 (2004),
384–406), which never decreases the likelihood; standard errors come from the observed information.
A prior of `games` won and `games` lost against a typical candidate of strength 0 keeps every
strength finite and gives the scores a zero. Without it they are centred on their mean, and may not
exist (NoStrengths).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

ROUNDS = 10_000
CLOSE = 1e-10


class NoStrengths(ValueError):
    """Raised for choices that do not determine finite strengths.

    A candidate always won or lost, or was never compared with some.
    """


@dataclass(frozen=True)
class Strengths:
    """Fitted strengths.

    `scores` (k,) are natural logarithms; the square roots of the diagonal of `covariance` (k, k)
    are standard errors.
    """

    scores: np.ndarray
    covariance: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def fit_bradley_terry(
    wins: np.ndarray, *, games: float = 0.0, against_typical: np.ndarray | None = None
) -> Strengths:
    """Fit strengths to wins (k, k): how often, or with what weight, row beat column.

    Ties count half. `against_typical` (k, 2): wins and losses of each against the typical
    candidate, in addition to the prior's `games`.
    """
    wins = np.array(wins, dtype=float)
    np.fill_diagonal(wins, 0.0)
    typical = _games_against_typical(len(wins), games, against_typical)
    met = wins + wins.T
    won = wins.sum(1) + typical[:, 0]
    anchored = bool(typical.sum())
    _check_finite(wins, typical)

    def expected_per_strength(strength: np.ndarray) -> np.ndarray:
        per_pair = met / np.add.outer(strength, strength)
        return per_pair.sum(1) + typical.sum(1) / (strength + 1)

    strength = _maximize_likelihood(won, expected_per_strength, anchored)
    chance = np.divide(strength[:, None], np.add.outer(strength, strength))
    doubt = met * chance * (1 - chance)
    information = doubt.sum(1) + _information_of_typical(typical, strength)
    return Strengths(np.log(strength), _inverse(np.diag(information) - doubt, anchored))


@dataclass(frozen=True)
class Choice:
    """A choice: `best` was preferred to all others of `among`, which includes it.

    It counts `weight` times.
    """

    best: int
    among: tuple[int, ...]
    weight: float = 1.0


def plackett_luce(
    count: int,
    choices: Sequence[Choice],
    *,
    games: float = 0.0,
    against_typical: np.ndarray | None = None,
) -> Strengths:
    """Fit strengths to choices out of sets of any size; candidates are 0 … count − 1.

    `against_typical` is as in `fit_bradley_terry`.
    """
    typical = _games_against_typical(count, games, against_typical)
    anchored = bool(typical.sum())
    best = np.array([choice.best for choice in choices], dtype=int)
    weight = np.array([choice.weight for choice in choices])
    among = np.zeros((len(choices), count))
    for row, choice in enumerate(choices):
        among[row, list(choice.among)] = 1
    won = np.bincount(best, weights=weight, minlength=count) + typical[:, 0]
    _check_choices(best, among, weight, typical)

    def expected_per_strength(strength: np.ndarray) -> np.ndarray:
        per_choice = weight / (among @ strength)
        return per_choice @ among + typical.sum(1) / (strength + 1)

    strength = _maximize_likelihood(won, expected_per_strength, anchored)
    chance = among * strength / (among @ strength)[:, None]  # (choices, k)
    information = np.diag(weight @ chance) - (chance * weight[:, None]).T @ chance
    information += np.diag(_information_of_typical(typical, strength))
    return Strengths(np.log(strength), _inverse(information, anchored))


def _games_against_typical(
    count: int, games: float, against_typical: np.ndarray | None
) -> np.ndarray:
    """Return the wins and losses (k, 2) against the typical candidate, the prior's included."""
    prior = np.full((count, 2), games)
    return prior if against_typical is None else prior + against_typical


def _maximize_likelihood(
    won: np.ndarray, expected_per_strength: Callable[[np.ndarray], np.ndarray], anchored: bool
) -> np.ndarray:
    """Return the strengths (k,) at which each candidate's expected wins are those that it `won`.

    `expected_per_strength` returns the expected wins divided by the strengths. Strengths that are
    not `anchored` by games against the typical candidate have a geometric mean of 1.
    """
    strength = np.ones(len(won))
    for _ in range(ROUNDS):
        new = won / expected_per_strength(strength)
        if not anchored:
            new = new / np.exp(np.log(new).mean())
        if np.abs(np.log(new / strength)).max() < CLOSE:
            break
        strength = new
    return strength


def _information_of_typical(typical: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Return the information (k,) in the games against the typical candidate."""
    return typical.sum(1) * strength / (1 + strength) ** 2


def split_ranking(ranks: dict[int, int], weight: float = 1.0) -> list[Choice]:
    """Return a ranking (candidate → rank, 1 best) as choices: the best of all, then of the rest.

    Ties are each chosen out of all not placed before (Breslow's way); a last one alone is no
    choice.
    """
    choices = []
    for rank in sorted(set(ranks.values())):
        remaining = tuple(sorted(candidate for candidate, at in ranks.items() if at >= rank))
        if len(remaining) > 1:
            choices += [
                Choice(candidate, remaining, weight)
                for candidate in remaining
                if ranks[candidate] == rank
            ]
    return choices


def _inverse(information: np.ndarray, anchored: bool) -> np.ndarray:
    """Return the covariance of the scores.

    If only their differences are known, it is that of the scores around their mean.
    """
    return np.linalg.inv(information) if anchored else np.linalg.pinv(information)


def _check_finite(wins: np.ndarray, typical: np.ndarray) -> None:
    """Raise NoStrengths unless there is a path, by wins, from everyone to everyone (Ford 1957).

    The typical candidate is one of them.
    """
    if not typical.any():
        _check_reach(wins)
        return
    size = len(wins) + 1
    with_typical = np.zeros((size, size))
    with_typical[:-1, :-1] = wins
    with_typical[:-1, -1] = typical[:, 0]
    with_typical[-1, :-1] = typical[:, 1]
    _check_reach(with_typical)


def _check_choices(
    best: np.ndarray, among: np.ndarray, weight: np.ndarray, typical: np.ndarray
) -> None:
    beats = np.zeros((len(typical),) * 2)
    np.add.at(beats, best, among * weight[:, None])
    np.fill_diagonal(beats, 0.0)
    _check_finite(beats, typical)


def _check_reach(beats: np.ndarray) -> None:
    reach = (beats > 0) | np.eye(len(beats), dtype=bool)
    for _ in range(max(int(np.ceil(np.log2(len(beats)))), 1)):
        reach = (reach.astype(float) @ reach) > 0
    if not reach.all():
        raise NoStrengths(
            "somebody always won or lost, or was never compared with some: give a prior, or more"
            " pairs"
        )
