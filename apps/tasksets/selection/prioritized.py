"""Kimi k1.5's prioritized sampling: tasks that rarely succeed are drawn more often.

See arXiv 2501.12599.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from apps.tasksets.selection.chance import below, unit
from apps.tasksets.selection.stock import Stock

AHEAD = 16  # candidates of a draw whose rates are looked up together
MAX_TRIES = 10_000

# Success rates of those of these tasks that have been tried.
Rates = Callable[[Iterable[int]], Mapping[int, float]]


def weight(rate: float, floor: float) -> float:
    """Return max(floor, 1 − s): what a task that succeeds at this rate weighs; at most 1."""
    return max(floor, 1.0 - rate)


def draw_prioritized(
    draws: Sequence[int], stock: Stock, seed: int, rates: Rates, *, floor: float, prior: float
) -> list[int]:
    """Return the tasks of these draws: P(i) ∝ max(floor, 1 − s_i) among those not refused.

    - `floor`: above 0: the weight of a solved task, so that a forgotten one is drawn again.
    - `prior`: the success rate of a task that has not been tried.

    This is rejection sampling: a candidate, each equally likely, is accepted with the probability
    of its weight. That is exact, looks up the rates of the candidates alone, and takes 1 / (mean
    weight) tries for a taskset of any size.
    """
    known_rates: dict[int, float] = {}
    looked_up: set[int] = set()

    def ask(indexes: Iterable[int]) -> None:
        new = set(indexes) - looked_up
        if new:
            known_rates.update(rates(new))
            looked_up.update(new)

    ask(_candidate(stock, seed, draw, n) for draw in draws for n in range(AHEAD))
    return [
        stock.take(_choose_task(draw, stock, seed, ask, known_rates, floor, prior))
        for draw in draws
    ]


def _choose_task(
    draw: int,
    stock: Stock,
    seed: int,
    ask: Callable[[Iterable[int]], None],
    known_rates: Mapping[int, float],
    floor: float,
    prior: float,
) -> int:
    for n in range(MAX_TRIES):
        if n % AHEAD == 0:
            ask(_candidate(stock, seed, draw, later) for later in range(n, n + AHEAD))
        index = _candidate(stock, seed, draw, n)
        if not stock.refuses(index) and unit(seed, draw, n, "taken") < weight(
            known_rates.get(index, prior), floor
        ):
            return index
    return stock.anyone(seed, draw, "in vain")


def _candidate(stock: Stock, seed: int, draw: int, n: int) -> int:
    return below(stock.size, seed, draw, n)
