"""Check by logprobs of a probe text that an engine serves the published weights.

Weight updates go wrong silently (a tied head keeps its old copy, a cache outlives its weights), and
only the engine's output shows it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workers.engines.interface import ParityError, ProbeLike

# Limits of the mean absolute gap, in nats, between an engine's logprobs and those that the
# publisher computed from weights rounded to the same precision. Measured on SmolLM2-135M-Instruct:
# 0 with the same code, whatever the threads and the batch; with other code (another attention
# kernel, token by token) 2e-6 in float32, 0.004 in float16, 0.048 in bfloat16. Wrong weights give,
# in any precision, 2.1 if a layer has its neighbour's, and 0.39 if one projection of it has them.
LIMITS = {"float32": 0.01, "float16": 0.02, "bfloat16": 0.1}
# Limits of the gap to logprobs in the trainer's precision, for a manifest that has no others.
# Rounding alone moves the logprobs by 0.007 in float16 and by 0.044 in bfloat16.
UNROUNDED_LIMITS = {"float32": 0.05, "float16": 0.1, "bfloat16": 0.25}


@dataclass(frozen=True)
class Parity:
    """Mean absolute gaps of the parity check, in nats.

    `trainer` is the gap to the logprobs in the trainer's precision; it decides only if `alike` is
    None. `alike` is the gap to the logprobs from weights rounded to the engine's precision; it is
    None if the manifest has none in that precision.
    """

    trainer: float
    alike: float | None


def require_parity(measured: Sequence[float], probe: ProbeLike, precision: str) -> Parity:
    """Compare logprobs that an engine measured in `precision`, a key of LIMITS, with the probe's.

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
    """Return the mean absolute difference; infinite if there is nothing to compare."""
    if len(measured) != len(published) or not measured:
        return math.inf
    gaps = [
        abs(ours - published_logprob)
        for ours, published_logprob in zip(measured, published, strict=True)
    ]
    return sum(gaps) / len(gaps)


def _require(gap: float, limit: float, precision: str) -> None:
    if not gap <= limit:  # also when it is NaN
        raise ParityError(gap, limit, precision)
