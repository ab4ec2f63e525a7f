"""The parity probe: do the live weights say what the trainer's weights said when they were published?

Weight updates go wrong silently (a tied head keeps its old copy, a cache outlives its weights), and only what comes
out of the engine shows it.
"""

import math
from collections.abc import Sequence

from workers.engines.interface import ParityError

LIMIT = 0.05  # mean absolute gap in nats; rounding to bf16 makes about 0.002, wrong weights 0.7 and more


def require_parity(measured: Sequence[float], published: Sequence[float]) -> float:
    """Mean absolute gap between the two; raises ParityError when it is above the limit or not a number."""
    if len(measured) != len(published) or not measured:
        raise ParityError(math.inf, LIMIT)
    gap = sum(abs(ours - theirs) for ours, theirs in zip(measured, published, strict=True)) / len(measured)
    if not gap <= LIMIT:  # also when it is NaN
        raise ParityError(gap, LIMIT)
    return gap
