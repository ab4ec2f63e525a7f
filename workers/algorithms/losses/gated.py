"""Losses that weight each token's gradient by its ratio instead of cutting it: CISPO and SAPO."""

import torch

from workers.algorithms.masking import zeroed
from workers.algorithms.ratios import log_ratio, mask_advantages, mask_policy_logprobs
from workers.algorithms.tokens import TokenLoss, Tokens


def cispo(
    tokens: Tokens,
    *,
    clip_low: float = 1.0,
    clip_high: float = 0.28,
    mask_low: float | None = None,
    mask_high: float | None = None,
) -> TokenLoss:
    """Return −A · w · log π per token (B, C), w = clip(π/β, 1 − clip_low, 1 + clip_high) constant.

    A clipped token keeps its gradient, with the weight at the clip. `mask_high` drops tokens with A
    > 0 and π/β > 1 + mask_high, `mask_low` those with A < 0 and π/β < 1 − mask_low, as PPO would;
    None drops none. Source: MiniMax-M1, arXiv 2506.13585, equations 4, 6 and 7.
    """
    advantages = mask_advantages(tokens)
    moved = log_ratio(tokens).detach()
    ratio = moved.exp()
    weight = ratio.clamp(1 - clip_low, 1 + clip_high)
    open_ = torch.ones_like(ratio)
    if mask_high is not None:
        open_ = open_.masked_fill((ratio > 1 + mask_high) & (advantages > 0), 0.0)
    if mask_low is not None:
        open_ = open_.masked_fill((ratio < 1 - mask_low) & (advantages < 0), 0.0)
    metrics = {
        "log_ratio": moved,
        "clipped": (weight != ratio).to(ratio.dtype),
        "unmasked": zeroed(open_, tokens.mask),
    }
    return TokenLoss(-advantages * weight * open_ * mask_policy_logprobs(tokens), metrics)


def sapo(
    tokens: Tokens,
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    constant_gate: bool = False,
) -> TokenLoss:
    """Return −A · f(r) per token (B, C), a soft clip: f(r) = (4/τ) σ(τ (r − 1)), r = π/β.

    τ is `tau_positive` where A > 0 and `tau_negative` elsewhere. The gradient 4 σ'(τ (r − 1)) r
    ∇log π is that of plain policy gradient at r = 1 and fades on both sides. `constant_gate` takes
    −A · f(r) · log π with f(r) held constant, a variant in use whose step is twice as long at r = 1
    and grows with r. Source: SAPO, arXiv 2511.20347.
    """
    advantages = mask_advantages(tokens)
    moved = log_ratio(tokens)
    tau = torch.full_like(moved, tau_negative).masked_fill(advantages > 0, tau_positive)
    gate = torch.sigmoid(tau * (moved.exp() - 1)) * 4 / tau
    values = -advantages * (gate.detach() * mask_policy_logprobs(tokens) if constant_gate else gate)
    return TokenLoss(
        values,
        {
            "log_ratio": moved.detach(),
            "gate": gate.detach(),
            "positive": (advantages > 0).to(moved.dtype),
        },
    )
