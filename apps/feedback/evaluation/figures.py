"""What an evaluation says, as pure functions: estimators for each task from its n samples, and means over tasks with intervals.

Each estimator is the exact mean over all ways to take k of a task's n judged samples, so none is biased by how many were drawn:
pass@k is M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), equation 1. A sample without a reward counts
nowhere: not as wrong, and not among the n. A task with fewer than k judged samples has no figure at k, but for its mean.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, fsum, sqrt

from apps.feedback.statistics.intervals import Z95, wilson

SUBSETS = 300  # of k among n that majorities are taken of, where there are more
SURE = 1e-9
MEASURES = {
    "pass": "share of tasks that at least one of k answers solves",
    "mean": "reward of an answer, as a share of the full one",
    "best": "reward of the best of k answers",
    "worst": "reward of the worst of k answers",
    "maj": "share of tasks that the commonest of k final answers solves",
}
# Student's t, two-sided 95 %, for 1 to 4 degrees of freedom; beyond, an expansion is right within 0.001.
T95 = (12.706205, 4.302653, 3.182446, 2.776445)


@dataclass(frozen=True)
class Tried:
    """A task's samples: shares of the full reward, None where nobody judged it, and final answers, "" where there is none."""

    values: tuple[float | None, ...]
    answers: tuple[str, ...] = ()

    @property
    def judged(self) -> list[float]:
        return [value for value in self.values if value is not None]


@dataclass(frozen=True)
class Mean:
    """Over `tasks` tasks, with its 95 % interval; all None where no task has the figure."""

    value: float | None
    low: float | None
    high: float | None
    tasks: int


def pass_at(n: int, c: int, k: int) -> float:
    """1 − C(n−c, k) / C(n, k): the chance that k of n samples, c of them right, hold a right one."""
    return 1.0 - comb(n - c, k) / comb(n, k)


def best_at(values: Sequence[float], k: int) -> float:
    """The mean of the largest over all k of the values: the ith smallest is it in C(i−1, k−1) of them."""
    ranked, all_ = sorted(values), comb(len(values), k)
    return fsum(value * (comb(place, k - 1) / all_) for place, value in enumerate(ranked))


def worst_at(values: Sequence[float], k: int) -> float:
    return -best_at([-value for value in values], k)


def majority_at(said: Sequence[tuple[str, float]], k: int, seed: int = 0) -> float:
    """How often the commonest of k final answers is right: exactly where there are few ways to take k, else over some of them.

    `said`: (answer, reward) of each sample; an empty answer has no vote. A tie is decided by chance, so it counts its mean; where
    nobody votes nothing is solved.
    """
    ways = comb(len(said), k)
    draw = random.Random(seed)
    taken = combinations(said, k) if ways <= SUBSETS else (draw.sample(said, k) for _ in range(SUBSETS))
    values = [_elected(some) for some in taken]
    return fsum(values) / len(values)


def _elected(said: Iterable[tuple[str, float]]) -> float:
    votes: dict[str, list[float]] = {}
    for answer, value in said:
        if answer:
            votes.setdefault(answer, []).append(value)
    if not votes:
        return 0.0
    most = max(map(len, votes.values()))
    winners = [fsum(values) / len(values) for values in votes.values() if len(values) == most]
    return fsum(winners) / len(winners)


def of_task(task: Tried, measure: str, k: int, right_from: float = 1.0) -> float | None:
    """The estimator at this task; None with fewer than k judged samples. The mean of k is the mean of all, whatever k."""
    judged = task.judged
    if measure == "mean" and judged:
        return fsum(judged) / len(judged)
    if len(judged) < k or not judged:
        return None
    if measure == "best":
        return best_at(judged, k)
    if measure == "worst":
        return worst_at(judged, k)
    if measure == "pass":
        return pass_at(len(judged), sum(is_right(value, right_from) for value in judged), k)
    pairs = zip(task.answers, task.values, strict=True)
    return majority_at([(answer, float(is_right(value, right_from))) for answer, value in pairs if value is not None], k)


def is_right(value: float, right_from: float) -> bool:
    return value >= right_from - SURE


def mean_of(values: Iterable[float | None]) -> Mean:
    """The mean over tasks and its interval: Student's t with the spread between tasks, which holds what samples of one task share.

    Where all tasks agree that spread says nothing, and it is Wilson's for a share. Within 0 and 1.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Mean(None, None, None, 0)
    count, mean = len(known), fsum(known) / len(known)
    spread = fsum((value - mean) ** 2 for value in known)
    if spread <= SURE or count < 2:
        low, high = wilson(min(max(mean, 0.0), 1.0) * count, count)
        return Mean(mean, min(low, mean), max(high, mean), count)
    half = t95(count - 1) * sqrt(spread / (count - 1) / count)
    return Mean(mean, max(mean - half, 0.0), min(mean + half, 1.0), count)


def t95(freedom: int) -> float:
    """The 97.5 % point of Student's t (M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.5)."""
    if freedom <= len(T95):
        return T95[freedom - 1]
    z, v = Z95, freedom
    terms = (
        (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )  # fmt: skip
    return z + sum(term / v ** (n + 1) for n, term in enumerate(terms))


def ks_of(samples: int) -> list[int]:
    """The k that are told: 1, 2, 4, … and all."""
    return sorted({1, samples, *(2**n for n in range(samples.bit_length()) if 2**n <= samples)})


def are_comparable(tasks: Iterable[Tried]) -> bool:
    """Whether majorities mean something: most samples have a final answer, and somewhere two of a task say the same."""
    said = [[answer for answer in task.answers if answer] for task in tasks]
    samples = sum(len(task.answers) for task in tasks)
    return 2 * sum(map(len, said)) > samples and any(len(set(answers)) < len(answers) for answers in said)


def table_of(tasks: Sequence[Tried], samples: int, right_from: float, measures: Iterable[str]) -> "Table":
    """Every measure at every k, for each of these tasks; slices of it are then means."""
    ks = ks_of(samples)
    return {measure: {k: [of_task(task, measure, k, right_from) for task in tasks] for k in ks} for measure in measures}


Table = dict[str, dict[int, list[float | None]]]


def means_of(table: Table, which: Callable[[int], bool] = lambda _: True) -> dict[str, dict[str, list]]:
    """{measure: {k: [value, low, high, tasks]}} over the tasks whose places in the table are wanted; as it goes to JSON."""
    return {
        measure: {str(k): _row(mean_of(value for n, value in enumerate(values) if which(n))) for k, values in of_k.items()}
        for measure, of_k in table.items()
    }


def _row(mean: Mean) -> list:
    return [mean.value, mean.low, mean.high, mean.tasks]
