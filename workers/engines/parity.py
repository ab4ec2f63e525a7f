"""Check that an engine's weights are the published ones, by logprobs at a probe.

Weight updates go wrong silently (a tied head keeps its old copy, a cache outlives its weights), and
only what comes out of the engine shows it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workers.engines.interface import ParityError, ProbeLike

# Mean absolute gap in nats between an engine's logprobs and those that the publisher computed from
# weights rounded alike. Measured on SmolLM2-135M-Instruct: 0 in the same code, whatever the threads
# and the batch; in other code (another attention kernel, token by token) 2e-6 in float32, 0.004 in
# float16, 0.048 in bfloat16. Of wrong weights in any of them: a layer with its neighbour's 2.1, one
# projection of it 0.39.
LIMITS = {"float32": 0.01, "float16": 0.02, "bfloat16": 0.1}
# To logprobs of the trainer's own precision, where its manifest has no others. Rounding alone moves
# them by 0.007 in float16 and by 0.044 in bfloat16.
UNROUNDED_LIMITS = {"float32": 0.05, "float16": 0.1, "bfloat16": 0.25}


@dataclass(frozen=True)
class Parity:
    """Mean absolute gaps of the parity check, in nats.

    `trainer`: to the logprobs in the trainer's own precision, which nothing is refused for where
    there is the other one. `alike`: to those from weights rounded as the engine's are; None where
    the manifest has none in its precision.
    """

    trainer: float
    alike: float | None


def require_parity(measured: Sequence[float], probe: ProbeLike, precision: str) -> Parity:
    """Hold what an engine computed at the probe in `precision`, a key of LIMITS, against it.

    Raises ParityError when the gap is above the limit of that precision, or not a number.
    """
    trainer = _gap(measured, probe.logprobs)
    if precision in probe.served:
        alike = _gap(measured, probe.served[precision])
        _require(alike, LIMITS[precision], precision)
        return Parity(trainer, alike)
    _require(trainer, UNROUNDED_LIMITS[precision], precision)
    return Parity(trainer, None)


def _gap(measured: Sequence[float], published: Sequence[float]) -> float:
    """Return the mean absolute difference; infinite where there is nothing to compare."""
    if len(measured) != len(published) or not measured:
        return math.inf
    gaps = [abs(ours - theirs) for ours, theirs in zip(measured, published, strict=True)]
    return sum(gaps) / len(gaps)


def _require(gap: float, limit: float, precision: str) -> None:
    if not gap <= limit:  # also when it is NaN
        raise ParityError(gap, limit, precision)
