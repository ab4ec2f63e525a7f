"""Online policy mirror descent: regression of the log-ratio on the advantage, without clip."""

from workers.algorithms.masking import row_sum
from workers.algorithms.ratios import log_ratio, mask_advantages, mask_policy_logprobs
from workers.algorithms.tokens import TokenLoss, Tokens


def opmd(tokens: Tokens, *, tau: float = 1.0) -> TokenLoss:
    """Return −A · log π / (1 + τ) per token (B, C): mirror descent's surrogate to first order.

    It is taken around the sampling policy. A is the reward minus the group's baseline, undivided.
    Source: Trinity-RFT, arXiv 2505.17826.
    """
    return TokenLoss(
        -mask_advantages(tokens) * mask_policy_logprobs(tokens) / (1 + tau),
        {"log_ratio": log_ratio(tokens).detach()},
    )


def kimi(tokens: Tokens, *, tau: float = 0.1) -> TokenLoss:
    """Return −A · log π(y) + (τ/2) Δ² of a completion, spread over its tokens (B, C).

    Δ = log π(y)/β(y), and both logarithms are sums over tokens. A token's part is −A log π_t +
    (τ/2) Δ (log π_t − log β_t); the parts of a row add up to the loss of the row, so the
    aggregation must be seq-mean-token-sum. A is the reward minus the group's mean; no division by a
    standard deviation, no clip, no importance ratio; β is the policy that sampled. Source: Kimi
    k1.5, arXiv 2501.12599, equation 3 and its gradient (half the gradient of the squared surrogate
    over τ, in which form the reward term does not depend on τ).
    """
    moved = log_ratio(tokens)
    whole = row_sum(moved, tokens.mask)
    values = -mask_advantages(tokens) * mask_policy_logprobs(tokens) + 0.5 * tau * whole * moved
    return TokenLoss(
        values, {"log_ratio": moved.detach(), "squared_distance": whole.detach().square()}
    )
