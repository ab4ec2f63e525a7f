"""Importance ratios of the policy to the weights that sampled, per token and per completion."""

import torch

from workers.algorithms.masking import row_mean, zeroed
from workers.algorithms.tokens import Tokens

# e^20 is about 5e8: a ratio beyond it says only "far away", and float32 loses its precision.
LIMIT = 20.0


def log_ratio(tokens: Tokens, limit: float | None = None) -> torch.Tensor:
    """Return log π/β per token, (B, C), zero outside the mask.

    With a `limit`, it is clamped to ±`limit`, and no gradient flows beyond.
    """
    moved = zeroed(tokens.policy - tokens.behaviour, tokens.mask)
    return moved if limit is None else moved.clamp(-limit, limit)


def mean_log_ratio(tokens: Tokens) -> torch.Tensor:
    """Return the mean of log π/β over each completion's loss tokens, (B, 1).

    It is the logarithm of the length-normalised sequence ratio.
    """
    return row_mean(tokens.policy - tokens.behaviour, tokens.mask)


def unit_ratio(policy: torch.Tensor) -> torch.Tensor:
    """Return π divided by a constant copy of itself, (B, C): value 1, gradient of log π."""
    return (policy - policy.detach()).exp()


def mask_advantages(tokens: Tokens) -> torch.Tensor:
    """Return the advantages, (B, C), zero outside the mask."""
    return zeroed(tokens.advantages, tokens.mask)


def mask_policy_logprobs(tokens: Tokens) -> torch.Tensor:
    """Return the policy's logprobs, (B, C), zero outside the mask."""
    return zeroed(tokens.policy, tokens.mask)
