"""Clipped losses: PPO's clip, and its decoupled form for stale data."""

import torch

from workers.algorithms.masking import row_mean, row_sum, zeroed
from workers.algorithms.ratios import LIMIT, log_ratio, mask_advantages
from workers.algorithms.tokens import TokenLoss, Tokens


def ppo(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = 3.0,
    sequence_mask: float | None = None,
    policy_gradient_fallback: bool = False,
) -> TokenLoss:
    """Return max(−A r, −A clip(r, 1 − clip_low, 1 + clip_high)) per token (B, C), with r = π/β.

    clip_high > clip_low is DAPO's clip-higher (arXiv 2503.14476). `dual_clip` c > 1 bounds the loss
    of a token with A < 0 by −A c (arXiv 1912.09729); None leaves it unbounded. `sequence_mask`
    drops the tokens with A < 0 of a row whose mean of log β/π, in nats, exceeds it (DeepSeek-V3.2,
    equation 9). `policy_gradient_fallback` gives r the value 1 and the gradient of log π, as if the
    data were fresh. Source: arXiv 1707.06347, equation 7.
    """
    advantages = mask_advantages(tokens)
    moved = log_ratio(tokens, LIMIT)
    if policy_gradient_fallback:
        moved = zeroed(tokens.policy - tokens.policy.detach(), tokens.mask)
    values, metrics = pessimistic(moved.exp(), advantages, clip_low, clip_high)
    metrics["dual_clipped"] = torch.zeros_like(values.detach())
    if dual_clip is not None:
        bound = -advantages * dual_clip
        metrics["dual_clipped"] = ((advantages < 0) & (values > bound)).to(values.dtype)
        values = torch.where(advantages < 0, torch.minimum(bound, values), values)
    if sequence_mask is not None:
        # The distance to the weights that sampled, also where the loss treats samples as fresh.
        metrics["sequence_kl"] = row_mean(-log_ratio(tokens, LIMIT).detach(), tokens.mask)
        dropped = (advantages < 0) & (metrics["sequence_kl"] > sequence_mask)
        metrics["dropped"] = dropped.to(values.dtype)
        values = values.masked_fill(dropped, 0.0)
    return TokenLoss(values, metrics | {"log_ratio": moved.detach()})


def decoupled(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float | None = 5.0,
    floor: float | None = None,
    correction: str = "token_truncate",
) -> TokenLoss:
    """Return W · max(−A u, −A clip(u, 1 − clip_low, 1 + clip_high)) per token (B, C).

    u = π/π_prox is clipped around the proximal policy, the weights at the start of the step. W
    corrects for sampling in older weights or in another precision, and has no gradient.
    `correction` selects W, where w is π_prox/β of the token or, with "sequence", the product of
    π_prox/β over the row's loss tokens (at most e^±20 in value):
        token_truncate, sequence_truncate   W = clip(w, floor, cap)
        token_mask, sequence_mask           W = w where floor ≤ w ≤ cap, else 0
    None leaves a side open. With fresh data π_prox = β, and this is `ppo` without dual clip.
    Sources: AReaL, arXiv 2505.24298; truncation per token is TIS (Yao et al. 2025, "Your Efficient
    RL Framework Secretly Brings You Off-Policy RL Training"); token_mask with floor 0.5 and cap 5
    is IcePop (Ring-1T, 2025); sequence_mask with cap 3 is TRL's default. Raises ValueError without
    `tokens.proximal`.
    """
    if tokens.proximal is None:
        raise ValueError(
            "the loss `decoupled` needs proximal logprobs, computed with the weights at the "
            "start of the step"
        )
    moved = zeroed(tokens.policy - tokens.proximal, tokens.mask).clamp(-LIMIT, LIMIT)
    stale = zeroed(tokens.proximal - tokens.behaviour, tokens.mask).detach()
    if correction in ("sequence_truncate", "sequence_mask"):
        stale = row_sum(stale, tokens.mask).expand_as(stale)
    weight = stale.clamp(-LIMIT, LIMIT).exp()
    truncated = weight.clamp(floor, cap) if (floor, cap) != (None, None) else weight
    values, metrics = pessimistic(moved.exp(), mask_advantages(tokens), clip_low, clip_high)
    outside = (weight != truncated).to(values.dtype)
    if correction in ("token_mask", "sequence_mask"):
        truncated = weight * (1 - outside)
        metrics["dropped"] = outside
    else:
        metrics["capped"] = outside
    metrics |= {"log_ratio": moved.detach(), "weight": truncated}
    return TokenLoss(values * truncated, metrics)


def pessimistic(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return PPO's pessimistic bound per token (B, C), and where the clipped value is used."""
    free = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip_low, 1 + clip_high)
    return torch.maximum(free, clipped), {"clipped": (clipped > free).to(ratio.dtype)}
