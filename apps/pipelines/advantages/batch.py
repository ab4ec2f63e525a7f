"""Advantages that are normalised over the whole batch of a step."""

import math
from collections.abc import Sequence

from apps.pipelines.advantages.spread import are_equal, centred, check_rewards

EPSILON = 1e-8


def reinforce_plus_plus(
    groups: Sequence[Sequence[float]],
    *,
    baseline: str = "none",
    epsilon: float = EPSILON,
    tokens: Sequence[Sequence[int]] | None = None,
) -> list[list[float]]:
    """Return A = (x − mean(x)) / √(var(x) + ε) over all tokens of the batch (REINFORCE++).

    This is REINFORCE++ (arXiv 2501.03262) with discount 1: every token of a rollout has the
    rollout's reward as its return. The variance is over N − 1 of N tokens.

    - `baseline`: `none`: x = r; `group`: x = r − mean of its group ("REINFORCE++-baseline" of the
      paper).
    - `tokens`: the number of loss tokens of each rollout, in the shape of `groups`; None counts
      each rollout once.

    A batch of equal rewards, or of one token: 0 throughout. A group of one with baseline `group`: x
    is the reward itself.
    """
    if baseline not in ("none", "group"):
        raise ValueError(f"baseline must be none or group, not {baseline!r}")
    checked = [check_rewards(group) for group in groups]
    values = [centred(group) if baseline == "group" else group for group in checked]
    weights = tokens or [[1] * len(group) for group in values]
    return unflatten(
        whitened(
            [v for group in values for v in group], [w for row in weights for w in row], epsilon
        ),
        values,
    )


def whitened(
    values: Sequence[float], weights: Sequence[float], epsilon: float = EPSILON
) -> list[float]:
    """Return (x − mean) / √(var + ε), each value counted `weight` times; zeros without spread."""
    count = math.fsum(weights)
    counted = [value for value, weight in zip(values, weights, strict=True) if weight]
    if count <= 1 or are_equal(counted):
        return [0.0] * len(values)
    middle = math.fsum(v * w for v, w in zip(values, weights, strict=True)) / count
    variance = math.fsum(w * (v - middle) ** 2 for v, w in zip(values, weights, strict=True)) / (
        count - 1
    )
    return [(value - middle) / math.sqrt(variance + epsilon) for value in values]


def unflatten(values: Sequence[float], shape: Sequence[Sequence[object]]) -> list[list[float]]:
    remaining = iter(values)
    return [[next(remaining) for _ in row] for row in shape]
