"""BOTS: beliefs about success rates, and draws of tasks nearest to a target rate.

See arXiv 2510.26374.

A belief is a Beta distribution (α, β), (1, 1) of a task that was never tried. What is believed
fades towards that by λ a step, also of tasks that are not drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from apps.tasksets.selection.chance import unit
from apps.tasksets.selection.stock import Stock

UNTRIED = 0.5  # the mean of (1, 1)
FADED = 1e-6  # rollouts: a belief with less evidence counts as that of a task never tried
Choose = Literal["thompson", "mean", "softmax"]


@dataclass(frozen=True)
class Beliefs:
    """Beliefs about the tasks that were tried, by rising index: arrays of one length."""

    index: np.ndarray  # (n,) int64
    alpha: np.ndarray  # (n,) float64
    beta: np.ndarray  # (n,) float64

    @cached_property
    def tried(self) -> frozenset[int]:
        """Return the indexes as a set."""
        return frozenset(self.index.tolist())

    @classmethod
    def of(
        cls, rows: Sequence[tuple[int, float, float, int]], update: int, forgetting: float
    ) -> "Beliefs":
        """Return the beliefs at this step.

        `rows`: (index, α, β, the step for whose draw the last verdict was).
        """
        table = np.array(sorted(rows), dtype=float).reshape(-1, 4)
        ago = np.maximum(0, update - table[:, 3])
        return cls(
            table[:, 0].astype(np.int64),
            faded(table[:, 1], ago, forgetting),
            faded(table[:, 2], ago, forgetting),
        )


def faded(parameter: np.ndarray, updates: np.ndarray, forgetting: float) -> np.ndarray:
    """Apply α ← (1 − λ)·α + λ as many times as there were steps."""
    return 1.0 + (1.0 - forgetting) ** updates * (parameter - 1.0)


def memory(forgetting: float, counts_as: float, groups_per_step: int) -> int | None:
    """Return after how many steps the strongest belief has less evidence than `FADED`.

    Tasks without a verdict since then are drawn as if never tried, so a draw reads only the newest
    records: their number depends on λ, not on the set. None means never: nothing is forgotten.
    """
    if not forgetting:
        return None
    if forgetting == 1:
        return 1
    # All groups of every step were of one task: a geometric series.
    strongest = counts_as * groups_per_step / forgetting
    return math.ceil(math.log(FADED / strongest) / math.log1p(-forgetting))


def evidence(rate: float, counts_as: float) -> tuple[float, float]:
    """Return the increments of (α, β) for a group that succeeded at the rate p: (m·p, m·(1 − p)).

    The group counts as m rollouts. BOTS adds (1 − ρ)·s + ρ·p̃·m, where s = m·p and p̃, the rate
    that reference models predict, is p itself for a task that was drawn: the sum is m·p for any ρ.
    """
    return counts_as * rate, counts_as * (1.0 - rate)


def draw_by_belief(
    draw: int,
    stock: Stock,
    seed: int,
    beliefs: Beliefs,
    *,
    target: float,
    choose: Choose,
    tau: float,
) -> int:
    """Return the index of the task that this draw takes, among those that are not refused.

    - `thompson`: the task whose rate, sampled from its belief, is nearest to the target.
    - `mean`: the task whose mean rate is nearest; untried tasks come before equally near ones.
    - `softmax`: a task with P ∝ exp(−|target − mean rate| / τ).

    Untried tasks all have the same belief, so the best of them is one sample of a known
    distribution. The work grows with the number of tried tasks, not with the taskset.
    """
    tried = _keys(draw, seed, beliefs, target, choose, tau)
    tried[np.isin(beliefs.index, list(stock.refused))] = -math.inf
    best = int(np.argmax(tried)) if len(tried) else -1
    untried = stock.size - len(beliefs.tried) - len(stock.refused - beliefs.tried)
    if untried and (
        best < 0
        or _best_untried(untried, unit(seed, draw, "untried"), target, choose, tau) >= tried[best]
    ):
        return stock.take(stock.anyone(seed, draw, "which", without=beliefs.tried))
    return stock.take(int(beliefs.index[best]))


def _keys(
    draw: int, seed: int, beliefs: Beliefs, target: float, choose: Choose, tau: float
) -> np.ndarray:
    """Return a key for each tried task, (n,); the task with the largest key is drawn."""
    chance = np.random.default_rng([seed, draw])
    if choose == "thompson":
        return -np.abs(target - chance.beta(beliefs.alpha, beliefs.beta))
    near = -np.abs(target - beliefs.alpha / (beliefs.alpha + beliefs.beta))
    # The largest of keys with Gumbel noise is a sample of their softmax.
    return near / tau + chance.gumbel(size=len(near)) if choose == "softmax" else near


def _best_untried(count: int, chance: float, target: float, choose: Choose, tau: float) -> float:
    """Return the largest key of `count` untried tasks, computed from one number in [0, 1)."""
    near = -abs(target - UNTRIED)
    if choose == "mean":
        return near
    if choose == "softmax":  # the largest of n Gumbel numbers is one of them, ln n further on
        return near / tau - math.log(-math.log(max(chance, 1e-300))) + math.log(count)
    return -_distance(
        -math.expm1(math.log1p(-chance) / count), target
    )  # 1 − (1 − u)^(1/n): the least of n uniform numbers


def _distance(share: float, target: float) -> float:
    """Return the largest distance from the target within this share of all numbers in [0, 1]."""
    inner = min(target, 1.0 - target)
    return share / 2 if share <= 2 * inner else share - inner
