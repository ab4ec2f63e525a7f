"""Check that an engine's weights are the published ones, by logprobs at a probe.

Weight updates go wrong silently (a tied head keeps its old copy, a cache outlives its weights), and
only what comes out of the engine shows it.
"""

import math
from collections.abc import Sequence

from workers.engines.interface import ParityError

# Mean absolute gap in nats to the logprobs that the trainer published in float32. Measured on
# SmolLM2-135M-Instruct: bfloat16 0.050 to 0.059, also between two implementations in bfloat16;
# float16 0.007; one layer with its neighbour's weights 0.96, in any precision.
LIMITS = {"float32": 0.05, "float16": 0.1, "bfloat16": 0.25}


def require_parity(
    measured: Sequence[float], published: Sequence[float], precision: str
) -> float:
    """Return the mean absolute gap between the two logprobs, in nats.

    `precision`: in which the engine computes, a key of LIMITS. Raises ParityError when the gap is
    above the limit of that precision, or not a number.
    """
    limit = LIMITS[precision]
    if len(measured) != len(published) or not measured:
        raise ParityError(math.inf, limit, precision)
    gaps = [abs(ours - theirs) for ours, theirs in zip(measured, published, strict=True)]
    gap = sum(gaps) / len(gaps)
    if not gap <= limit:  # also when it is NaN
        raise ParityError(gap, limit, precision)
    return gap
