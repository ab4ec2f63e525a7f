"""Loss with the importance ratio of a whole answer: GSPO."""

from workers.algorithms.losses.clipped import pessimistic
from workers.algorithms.masking import zeroed
from workers.algorithms.ratios import (
    log_ratio,
    mask_advantages,
    mask_policy_logprobs,
    mean_log_ratio,
    unit_ratio,
)
from workers.algorithms.tokens import TokenLoss, Tokens


def gspo(tokens: Tokens, *, clip_low: float = 3e-4, clip_high: float = 4e-4) -> TokenLoss:
    """Return max(−A s, −A clip(s, 1 − clip_low, 1 + clip_high)) per token (B, C).

    s is the ratio of the whole answer: (π(y)/β(y))^(1/|y|) = exp(mean over tokens of log π/β) in
    value; each token of the row passes s times its own gradient of log π on, so that a row's mean
    has the gradient of s. Meant for seq-mean-token-mean. Source: GSPO, arXiv 2507.18071, equations
    5, 7 and 13 (GSPO-token).
    """
    whole = mean_log_ratio(tokens).detach()
    ratio = unit_ratio(mask_policy_logprobs(tokens)) * whole.exp()
    values, metrics = pessimistic(
        zeroed(ratio, tokens.mask), mask_advantages(tokens), clip_low, clip_high
    )
    metrics |= {"log_ratio": log_ratio(tokens).detach(), "sequence_kl": -whole}
    return TokenLoss(values, metrics)
