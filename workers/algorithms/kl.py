"""Estimators of the KL divergence from the reference model, per token, and their penalty.

With d = log π/π_ref of a sampled token, and expectations under π:

| estimator | value | of KL(π‖π_ref) |
|---|---|---|
| none | 0 | |
| k1 | d | unbiased, may be negative, and as a loss its expected gradient is zero: use it in the
reward |
| k2 | d²/2 | biased in value; as a loss its gradient is that of the KL |
| k3 | e^(−d) − 1 + d | unbiased in value, never negative, little variance |
| low_var | k3 with d clamped to ±20 and the value to ±10 | k3 that cannot explode |
| abs | abs(d) | a distance, not a KL |
| corrected_k3 | clip(π/β, 0, 2) · k3 | k3 for tokens that β sampled, not π |

Source: J. Schulman, Approximating KL divergence (2020); corrected: DeepSeek-V3.2.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from workers.algorithms.aggregation import aggregate
from workers.algorithms.masking import zeroed
from workers.algorithms.tokens import Tokens, Window

D_LIMIT = 20.0
LOW_VAR_LIMIT = 10.0
CORRECTION_LIMIT = 2.0

Estimator = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def k3(policy: torch.Tensor, reference: torch.Tensor, behaviour: torch.Tensor) -> torch.Tensor:
    back = reference - policy
    return torch.expm1(back) - back


def low_var(policy: torch.Tensor, reference: torch.Tensor, behaviour: torch.Tensor) -> torch.Tensor:
    back = (reference - policy).clamp(-D_LIMIT, D_LIMIT)
    return (torch.expm1(back) - back).clamp(-LOW_VAR_LIMIT, LOW_VAR_LIMIT)


def corrected_k3(
    policy: torch.Tensor, reference: torch.Tensor, behaviour: torch.Tensor
) -> torch.Tensor:
    return (policy - behaviour).exp().clamp(0, CORRECTION_LIMIT) * k3(policy, reference, behaviour)


# policy, reference, behaviour, each (B, C) → (B, C) in nats
ESTIMATORS: dict[str, Estimator] = {
    "none": lambda policy, reference, behaviour: torch.zeros_like(policy),
    "k1": lambda policy, reference, behaviour: policy - reference,
    "k2": lambda policy, reference, behaviour: (policy - reference).square() / 2,
    "k3": k3,
    "low_var": low_var,
    "abs": lambda policy, reference, behaviour: (policy - reference).abs(),
    "corrected_k3": corrected_k3,
}


def divergence(tokens: Tokens, estimator: str) -> torch.Tensor:
    """Return the estimate per token, (B, C), zero outside the mask.

    Raises ValueError without a reference or for an unknown name.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"unknown KL estimator {estimator!r}; use one of {', '.join(ESTIMATORS)}")
    if estimator == "none":
        return torch.zeros_like(tokens.policy)
    if tokens.reference is None:
        raise ValueError(f"the KL estimator {estimator!r} needs logprobs of a reference model")
    three = (
        zeroed(logprobs, tokens.mask)
        for logprobs in (tokens.policy, tokens.reference, tokens.behaviour)
    )
    return ESTIMATORS[estimator](*three)


def kl_loss(
    tokens: Tokens, estimator: str, coefficient: float, mode: str, window: Window
) -> torch.Tensor:
    """Return coefficient · KL to the reference, the micro-batch's share of the step's, 0-dim.

    Add it to the loss.
    """
    return coefficient * aggregate(divergence(tokens, estimator), tokens.mask, mode, window)


def charged(tokens: Tokens, estimator: str, coefficient: float) -> Tokens:
    """Return the tokens with A − coefficient · KL as advantages: each token pays for its own KL.

    The result has no gradient. The KL is that of the policy that sampled (β in place of π), since a
    reward is a fact about the sample.
    """
    at_sampling = replace(tokens, policy=tokens.behaviour.detach())
    return replace(
        tokens, advantages=tokens.advantages - coefficient * divergence(at_sampling, estimator)
    )


def adapted(
    coefficient: float, measured: float, *, target: float, horizon: float, rows: int
) -> float:
    """Return the next step's coefficient · (1 + clip(measured/target − 1, ±0.2) · rows/horizon).

    `measured` is the step's mean KL in the units of `target` (nats per token, or per row, as the
    aggregation has it), and `rows` counts the completions of the step. After `horizon`
    completions with a steady error of 20 %, the coefficient has moved by 20 %. The clip is
    Ziegler's, arXiv 1909.08593, section 2.2. A measurement that is not finite changes nothing.
    """
    error = measured / target - 1
    if error != error or error in (float("inf"), float("-inf")):
        return coefficient
    return coefficient * (1 + min(max(error, -0.2), 0.2) * rows / horizon)
