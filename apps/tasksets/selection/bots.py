"""BOTS: a belief about each task's success rate, and draws of those whose rate is nearest to a target (arXiv 2510.26374).

A belief is a Beta distribution (α, β), (1, 1) of a task that was never tried. What is believed fades towards that by λ an
update, also of tasks that are not drawn.
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
Choose = Literal["thompson", "mean", "softmax"]


@dataclass(frozen=True)
class Beliefs:
    """Of the tasks that were tried, by rising index: arrays of one length."""

    index: np.ndarray  # (n,) int64
    alpha: np.ndarray  # (n,) float64
    beta: np.ndarray  # (n,) float64

    @cached_property
    def known(self) -> frozenset[int]:
        """The indexes as a set."""
        return frozenset(self.index.tolist())

    @classmethod
    def of(cls, rows: Sequence[tuple[int, float, float, int]], update: int, forgetting: float) -> "Beliefs":
        """As they are at this update. `rows`: (index, α, β, the update for whose draw the last verdict was)."""
        table = np.array(sorted(rows), dtype=float).reshape(-1, 4)
        ago = np.maximum(0, update - table[:, 3])
        return cls(table[:, 0].astype(np.int64), faded(table[:, 1], ago, forgetting), faded(table[:, 2], ago, forgetting))


def faded(parameter: np.ndarray, updates: np.ndarray, forgetting: float) -> np.ndarray:
    """α ← (1 − λ)·α + λ, so many times."""
    return 1.0 + (1.0 - forgetting) ** updates * (parameter - 1.0)


def evidence(rate: float, counts_as: float) -> tuple[float, float]:
    """What a verdict adds to (α, β): (m·p, m·(1 − p)) for a group that succeeded at the rate p and counts as m rollouts.

    BOTS adds (1 − ρ)·s + ρ·p̃·m, where s = m·p and p̃, the rate that reference models foretell, is p itself for a task
    that was drawn: the sum is m·p for any ρ.
    """
    return counts_as * rate, counts_as * (1.0 - rate)


def drawn(draw: int, stock: Stock, seed: int, beliefs: Beliefs, *, target: float, choose: Choose, tau: float) -> int:
    """Index of the task that this draw takes, among those that are not refused.

    thompson   the task whose rate, drawn from what is believed of it, is nearest to the target
    mean       the task whose mean rate is nearest; those untried before others that are as near
    softmax    a task with P ∝ exp(−|target − mean rate| / τ)
    Tasks that were never tried are alike, so the best of them is one number of a known distribution: the work grows with the
    tasks that were tried, not with the set.
    """
    tried = _keys(draw, seed, beliefs, target, choose, tau)
    tried[np.isin(beliefs.index, list(stock.refused))] = -math.inf
    best = int(np.argmax(tried)) if len(tried) else -1
    untried = stock.size - len(beliefs.known) - len(stock.refused - beliefs.known)
    if untried and (best < 0 or _best_untried(untried, unit(seed, draw, "untried"), target, choose, tau) >= tried[best]):
        return stock.take(stock.anyone(seed, draw, "which", without=beliefs.known))
    return stock.take(int(beliefs.index[best]))


def _keys(draw: int, seed: int, beliefs: Beliefs, target: float, choose: Choose, tau: float) -> np.ndarray:
    """(n,) The largest is drawn."""
    chance = np.random.default_rng([seed, draw])
    if choose == "thompson":
        return -np.abs(target - chance.beta(beliefs.alpha, beliefs.beta))
    near = -np.abs(target - beliefs.alpha / (beliefs.alpha + beliefs.beta))
    # The largest of keys with Gumbel noise is a sample of their softmax.
    return near / tau + chance.gumbel(size=len(near)) if choose == "softmax" else near


def _best_untried(count: int, chance: float, target: float, choose: Choose, tau: float) -> float:
    """The largest key of so many tasks of which nothing is known, made of one number in [0, 1)."""
    near = -abs(target - UNTRIED)
    if choose == "mean":
        return near
    if choose == "softmax":  # the largest of n Gumbel numbers is one of them, ln n further on
        return near / tau - math.log(-math.log(max(chance, 1e-300))) + math.log(count)
    return -_distance(-math.expm1(math.log1p(-chance) / count), target)  # 1 − (1 − u)^(1/n): the least of n uniform numbers


def _distance(share: float, target: float) -> float:
    """How far from the target this share of all numbers in [0, 1] lies at most."""
    inner = min(target, 1.0 - target)
    return share / 2 if share <= 2 * inner else share - inner
