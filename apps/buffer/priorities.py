"""Priorities of experiences in a buffer that keeps them: newer and less used ones come first.

Each rule returns (priority, whether the experience goes back into the buffer after this use);
higher priorities go first.
"""

import random


def linear_decay(weight_version: int, uses: int, *, decay: float = 2.0) -> tuple[float, bool]:
    """Return p = version − decay · uses; an experience always goes back.

    `weight_version` is the version that sampled it (one version newer counts as much as 1/decay
    uses fewer), `uses` the number of steps that took it.
    """
    return weight_version - decay * uses, True


def decay_with_limit(
    weight_version: int,
    uses: int,
    *,
    decay: float = 2.0,
    use_limit: int = 3,
    sigma: float = 0.0,
    draw: random.Random | None = None,
) -> tuple[float, bool]:
    """Return p = version − decay · uses + N(0, σ²); an experience goes back below the use limit.

    `use_limit` of 0 or less means no limit. `sigma` is the spread, in versions, of the noise that
    breaks ties, and `draw` its source (needed when σ > 0). Raises ValueError for a negative σ, or
    for a positive one without a source.
    """
    if sigma < 0 or (sigma > 0 and draw is None):
        raise ValueError(
            f"sigma is {sigma}; it must be 0, or above 0 with a source of random numbers in `draw`"
        )
    noise = draw.gauss(0.0, sigma) if draw and sigma else 0.0
    return weight_version - decay * uses + noise, use_limit <= 0 or uses < use_limit


PRIORITIES = {"linear_decay": linear_decay, "decay_with_limit": decay_with_limit}
