"""Online policy mirror descent: regress the log-ratio on the reward above the baseline, with no clip and no ratio."""

from workers.algorithms.masking import row_sum
from workers.algorithms.ratios import advantages_of, log_ratio, policy_of
from workers.algorithms.tokens import TokenLoss, Tokens


def opmd(tokens: Tokens, *, tau: float = 1.0) -> TokenLoss:
    """−A · log π / (1 + τ) per token (B, C): the surrogate of mirror descent to first order around the sampling policy.

    A is the reward minus the group's baseline, undivided. Source: Trinity-RFT, arXiv 2505.17826.
    """
    return TokenLoss(-advantages_of(tokens) * policy_of(tokens) / (1 + tau), {"log_ratio": log_ratio(tokens).detach()})


def kimi(tokens: Tokens, *, tau: float = 0.1) -> TokenLoss:
    """−A · log π(y) + (τ/2) Δ² of a completion, spread over its tokens (B, C), with Δ = log π(y)/β(y), sums over tokens.

    A token's part is −A log π_t + (τ/2) Δ (log π_t − log β_t); the parts of a row add up to the loss of the row, so the
    aggregation must be seq-mean-token-sum. A is the reward minus the group's mean; no division by a standard deviation,
    no clip, no importance ratio; β is whoever sampled. Source: Kimi k1.5, arXiv 2501.12599, equation 3 and its gradient
    (half the gradient of the squared surrogate over τ, in which form the reward term does not depend on τ).
    """
    moved = log_ratio(tokens)
    whole = row_sum(moved, tokens.mask)
    values = -advantages_of(tokens) * policy_of(tokens) + 0.5 * tau * whole * moved
    return TokenLoss(values, {"log_ratio": moved.detach(), "squared_distance": whole.detach().square()})
