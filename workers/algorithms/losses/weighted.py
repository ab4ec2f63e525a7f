"""Policy gradients with or without an importance weight, and a choice of the tokens that count."""

import torch

from workers.algorithms.masking import zeroed
from workers.algorithms.ratios import (
    LIMIT,
    log_ratio,
    mask_advantages,
    mask_policy_logprobs,
    mean_log_ratio,
    unit_ratio,
)
from workers.algorithms.tokens import TokenLoss, Tokens


def importance_sampling(tokens: Tokens, *, cap: float | None = None) -> TokenLoss:
    """Return −A · π/β per token (B, C), unclipped.

    `cap` truncates the weight to min(π/β, cap): value −A · min(r, cap) and gradient −A · min(r,
    cap) · ∇log π, so that a truncated token keeps its gradient, with the weight at the cap
    (truncated importance sampling, Ionides 2008).
    """
    advantages = mask_advantages(tokens)
    moved = log_ratio(tokens, LIMIT)
    metrics = {"log_ratio": moved.detach(), "ratio": moved.detach().exp()}
    if cap is None:
        return TokenLoss(-advantages * moved.exp(), metrics)
    weight = metrics["ratio"].clamp(max=cap)
    metrics["capped"] = (metrics["ratio"] > cap).to(weight.dtype)
    return TokenLoss(-advantages * weight * unit_ratio(mask_policy_logprobs(tokens)), metrics)


def topr(tokens: Tokens, *, threshold: float = 0.0) -> TokenLoss:
    """Return −α · A · log π per token (B, C).

    α is 1 where A > threshold, and the constant clip(π/β, 0, 1) elsewhere. Tokens to reinforce are
    learned as in supervised training; tokens to avoid lose weight as they become unlikely. Source:
    TOPR, arXiv 2503.14286, with the ratio taken per token.
    """
    advantages = mask_advantages(tokens)
    moved = log_ratio(tokens).detach()
    alpha = torch.where(advantages > threshold, 1.0, moved.exp().clamp(0, 1)).to(moved.dtype)
    metrics = {"log_ratio": moved, "ratio": moved.exp(), "alpha": alpha}
    return TokenLoss(-alpha * advantages * mask_policy_logprobs(tokens), metrics)


def sppo(tokens: Tokens, *, epsilon: float = 0.3) -> TokenLoss:
    """Return −A · log π/β per token (B, C) where 1/(1 + ε) ≤ π/β ≤ 1 + ε, else 0.

    Softmax PPO: the log of the ratio in place of the ratio. Source: arXiv 2108.05828.
    """
    moved = log_ratio(tokens)
    ratio = moved.detach().exp()
    inside = ((ratio >= 1 / (1 + epsilon)) & (ratio <= 1 + epsilon)).to(moved.dtype)
    return TokenLoss(
        -mask_advantages(tokens) * moved * inside,
        {"log_ratio": moved.detach(), "clipped": 1 - inside},
    )


def rec(
    tokens: Tokens,
    *,
    clip_mode: str = "none",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    outer_low: float = 0.6,
    outer_high: float = 2.0,
    weight: str = "none",
    regularizer: str = "none",
    regularizer_coefficient: float = 0.0,
    temperature: float = 1.0,
) -> TokenLoss:
    """Return −A · w · log π · 1[counts] + regulariser per token (B, C): REINFORCE with options.

    counts (`clip_mode`), with the ratio r = π/β, low = 1 − clip_low, high = 1 + clip_high:
        none: all tokens
        two-side: low ≤ r ≤ high
        one-side: r ≤ high for A ≥ 0, r ≥ low for A ≤ 0
        sequence-one-side: one-side with the length-normalised ratio of the row
        ring: two-side, or r ≤ 1 − outer_low for A ≥ 0, or r ≥ 1 + outer_high for A ≤ 0
    w (`weight`), always constant:
        none: 1
        importance: r
        truncated: clip(r, 1 − outer_low, 1 + outer_high)
        sequence: the row's ratio
        advantage: e^(A/temperature)
    `regularizer`, times its coefficient:
        none: 0
        k2: (log r)²
        forward-kl: −log π

    Source: the REC family, arXiv 2509.24203.
    """
    advantages = mask_advantages(tokens)
    moved = log_ratio(tokens)
    ratio = moved.detach().exp()
    whole = mean_log_ratio(tokens).detach().exp()
    counts = _rec_counts(
        clip_mode,
        ratio,
        whole,
        advantages,
        (1 - clip_low, 1 + clip_high),
        (1 - outer_low, 1 + outer_high),
    )
    counts = counts.to(moved.dtype)
    values = -advantages * _rec_weight(
        weight, ratio, whole, advantages, (1 - outer_low, 1 + outer_high), temperature
    )
    values = values * mask_policy_logprobs(tokens) * counts
    if regularizer == "k2":
        values = values + regularizer_coefficient * moved.square()
    elif regularizer == "forward-kl":
        values = values - regularizer_coefficient * mask_policy_logprobs(tokens)
    return TokenLoss(
        values, {"log_ratio": moved.detach(), "clipped": zeroed(1 - counts, tokens.mask)}
    )


def _rec_counts(
    mode: str,
    ratio: torch.Tensor,
    whole: torch.Tensor,
    advantages: torch.Tensor,
    inner: tuple[float, float],
    outer: tuple[float, float],
) -> torch.Tensor:
    """Return which tokens count, (B, C) bool.

    `inner` and `outer` are the two ranges of the ratio.
    """
    inside = (ratio >= inner[0]) & (ratio <= inner[1])
    beyond = ((advantages >= 0) & (ratio <= outer[0])) | ((advantages <= 0) & (ratio >= outer[1]))
    return {
        "none": torch.ones_like(inside),
        "two-side": inside,
        "one-side": _one_side(ratio, advantages, *inner),
        "sequence-one-side": _one_side(whole.expand_as(ratio), advantages, *inner),
        "ring": inside | beyond,
    }[mode]


def _one_side(
    ratio: torch.Tensor, advantages: torch.Tensor, low: float, high: float
) -> torch.Tensor:
    """Return where PPO's clip lets the gradient through, (B, C) bool."""
    return ((advantages >= 0) & (ratio <= high)) | ((advantages <= 0) & (ratio >= low))


def _rec_weight(
    name: str,
    ratio: torch.Tensor,
    whole: torch.Tensor,
    advantages: torch.Tensor,
    outer: tuple[float, float],
    temperature: float,
) -> torch.Tensor:
    """Return the constant weight of a token's gradient, (B, C) or (B, 1)."""
    if name == "advantage":
        return (advantages / temperature).exp()
    return {
        "none": torch.ones_like(ratio),
        "importance": ratio,
        "truncated": ratio.clamp(*outer),
        "sequence": whole,
    }[name]
