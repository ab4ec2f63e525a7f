"""Statistics of an evaluation, as pure functions: estimators per task and means with intervals.

Each estimator is the exact mean over all ways to take k of a task's n judged samples, so none is
biased by how many were sampled: pass@k is M. Chen et al., "Evaluating Large Language Models Trained
on Code" (2021), equation 1. A sample without a reward counts nowhere: not as wrong, and not among
the n. A task with fewer than k judged samples has no metric at k, except its mean.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, fsum, sqrt

from apps.statistics.intervals import Z95, wilson

SUBSETS = 300  # how many subsets of k among n are sampled, where there are more
SURE = 1e-9
MEASURES = {
    "pass": "share of tasks with at least one correct reply among k",
    "mean": "mean reward of a reply, as a share of the full reward",
    "best": "reward of the best of k replies",
    "worst": "reward of the worst of k replies",
    "maj": "share of tasks where the most common of k final answers is correct",
}
# Student's t, two-sided 95 %, for 1 to 4 degrees of freedom; beyond, an expansion is right within
# 0.001.
T95 = (12.706205, 4.302653, 3.182446, 2.776445)


@dataclass(frozen=True)
class TaskSamples:
    """A task's samples: shares of the full reward, and final answers.

    A share is None if nobody judged the sample; an answer is "" if there is none.
    """

    values: tuple[float | None, ...]
    answers: tuple[str, ...] = ()

    @property
    def judged(self) -> list[float]:
        return [value for value in self.values if value is not None]


@dataclass(frozen=True)
class Mean:
    """A mean over `tasks` tasks with its 95 % interval; all None if no task has the metric."""

    value: float | None
    low: float | None
    high: float | None
    tasks: int


def pass_at(n: int, c: int, k: int) -> float:
    """Return 1 − C(n−c, k) / C(n, k).

    It is the chance that at least one of k samples, drawn from n of which c are right, is right.
    """
    return 1.0 - comb(n - c, k) / comb(n, k)


def best_at(values: Sequence[float], k: int) -> float:
    """Return the mean of the maximum over all k of the values.

    The ith smallest value is the maximum in C(i−1, k−1) of them.
    """
    ranked = sorted(values)
    choice_count = comb(len(values), k)
    return fsum(value * (comb(place, k - 1) / choice_count) for place, value in enumerate(ranked))


def worst_at(values: Sequence[float], k: int) -> float:
    return -best_at([-value for value in values], k)


def majority_at(answers: Sequence[tuple[str, float]], k: int, seed: int = 0) -> float:
    """Return how often the most common of k final answers is right.

    Exact if there are few ways to take k, otherwise over some of them. `answers` holds (answer,
    reward) of each sample; an empty answer has no vote. A tie is broken at random, so it counts its
    mean; without votes the result is 0.
    """
    ways = comb(len(answers), k)
    draw = random.Random(seed)
    subsets = (
        combinations(answers, k)
        if ways <= SUBSETS
        else (draw.sample(answers, k) for _ in range(SUBSETS))
    )
    values = [_majority_value(subset) for subset in subsets]
    return fsum(values) / len(values)


def _majority_value(answers: Iterable[tuple[str, float]]) -> float:
    votes: dict[str, list[float]] = {}
    for answer, value in answers:
        if answer:
            votes.setdefault(answer, []).append(value)
    if not votes:
        return 0.0
    top_count = max(map(len, votes.values()))
    winners = [fsum(values) / len(values) for values in votes.values() if len(values) == top_count]
    return fsum(winners) / len(winners)


def of_task(
    task: TaskSamples, measure: str, k: int, correct_threshold: float = 1.0
) -> float | None:
    """Return the estimator for this task; None with fewer than k judged samples.

    The mean of k is the mean of all, for any k.
    """
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
        return pass_at(len(judged), sum(is_right(value, correct_threshold) for value in judged), k)
    pairs = zip(task.answers, task.values, strict=True)
    return majority_at(
        [
            (answer, float(is_right(value, correct_threshold)))
            for answer, value in pairs
            if value is not None
        ],
        k,
    )


def is_right(value: float, correct_threshold: float) -> bool:
    return value >= correct_threshold - SURE


def mean_with_interval(values: Iterable[float | None]) -> Mean:
    """Return the mean over tasks and its interval, within 0 and 1.

    The interval is Student's t with the spread between tasks, which includes the correlation of
    samples of one task. If all tasks agree there is no spread, and Wilson's interval for a share is
    used.
    """
    known_values = [value for value in values if value is not None]
    if not known_values:
        return Mean(None, None, None, 0)
    count = len(known_values)
    mean = fsum(known_values) / len(known_values)
    spread = fsum((value - mean) ** 2 for value in known_values)
    if spread <= SURE or count < 2:
        bounds = wilson(min(max(mean, 0.0), 1.0) * count, count)
        assert bounds is not None  # of at least one task
        low, high = bounds
        return Mean(mean, min(low, mean), max(high, mean), count)
    half = t95(count - 1) * sqrt(spread / (count - 1) / count)
    return Mean(mean, max(mean - half, 0.0), min(mean + half, 1.0), count)


def t95(freedom: int) -> float:
    """Return the 97.5 % point of Student's t.

    M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    if freedom <= len(T95):
        return T95[freedom - 1]
    z = Z95
    v = freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v ** (n + 1) for n, term in enumerate(terms))


def list_reported_ks(samples: int) -> list[int]:
    """Return the values of k that are reported: 1, 2, 4, … and all."""
    return sorted({1, samples, *(2**n for n in range(samples.bit_length()) if 2**n <= samples)})


def are_comparable(tasks: Iterable[TaskSamples]) -> bool:
    """Tell whether majority votes are meaningful.

    Most samples must have a final answer, and in some task two must be equal.
    """
    references = [[answer for answer in task.answers if answer] for task in tasks]
    samples = sum(len(task.answers) for task in tasks)
    return 2 * sum(map(len, references)) > samples and any(
        len(set(answers)) < len(answers) for answers in references
    )


def build_pass_table(
    tasks: Sequence[TaskSamples], samples: int, correct_threshold: float, measures: Iterable[str]
) -> "Table":
    """Return every measure at every k for each of these tasks; means are taken over parts of it."""
    ks = list_reported_ks(samples)
    return {
        measure: {k: [of_task(task, measure, k, correct_threshold) for task in tasks] for k in ks}
        for measure in measures
    }


Table = dict[str, dict[int, list[float | None]]]


def compute_means(
    table: Table, is_selected: Callable[[int], bool] = lambda _: True
) -> dict[str, dict[str, list]]:
    """Return {measure: {k: [value, low, high, tasks]}} over the selected tasks, ready for JSON."""
    return {
        measure: {
            str(k): _row(
                mean_with_interval(value for n, value in enumerate(values) if is_selected(n))
            )
            for k, values in of_k.items()
        }
        for measure, of_k in table.items()
    }


def _row(mean: Mean) -> list:
    return [mean.value, mean.low, mean.high, mean.tasks]
