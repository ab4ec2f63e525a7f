"""Supervised losses: cross-entropy, and two weightings of its tokens.

They read neither behaviour logprobs nor advantages: an expert wrote the tokens, or they are the
run's own best samples.
"""

import math

from workers.algorithms.masking import zeroed
from workers.algorithms.ratios import mask_policy_logprobs
from workers.algorithms.tokens import TokenLoss, Tokens


def sft(tokens: Tokens) -> TokenLoss:
    """Return −log π per token (B, C): supervised fine-tuning.

    On the run's best own answers it is RAFT (arXiv 2304.06767).
    """
    return TokenLoss(-mask_policy_logprobs(tokens))


def sft_is(tokens: Tokens) -> TokenLoss:
    """Return −p · log π per token (B, C), p = π held constant.

    It is the gradient of the expected reward, with reward 1 for a match. Source: CHORD, arXiv
    2508.11408; DFT, arXiv 2508.05629.
    """
    policy = mask_policy_logprobs(tokens)
    probability = zeroed(policy.detach().exp(), tokens.mask)
    return TokenLoss(-probability * policy, {"weight": probability})


def sft_phi(tokens: Tokens, *, cutoff: float | None = None) -> TokenLoss:
    """Return −p (1 − p) · log π per token (B, C), p = π held constant.

    The weight is smallest for tokens that the policy already knows and for hopeless ones. A token
    with p above `cutoff` has no gradient: its logprob counts as log cutoff. With None, all tokens
    have a gradient. Source: CHORD-φ, arXiv 2508.11408.
    """
    policy = mask_policy_logprobs(tokens)
    probability = policy.detach().exp()
    weight = zeroed(probability * (1 - probability), tokens.mask)
    if cutoff is not None:
        policy = policy.clamp(max=math.log(cutoff))
    return TokenLoss(-weight * policy, {"weight": weight})
