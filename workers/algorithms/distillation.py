"""Advantages from a teacher that judges each sampled token, in place of a reward.

s and t are the student's and the teacher's logprobs of the token that the student sampled, (B, C),
in nats; the student's are those of sampling. Use them with `importance_sampling` or `ppo`,
aggregated over tokens.
"""

import math

import torch

from workers.algorithms.masking import zeroed


def towards_teacher(
    behaviour: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor, *, coefficient: float = 1.0
) -> torch.Tensor:
    """Return coefficient · (t − s) per token (B, C), zero outside the mask.

    Used as advantages, these give the policy gradient of the reverse KL, token by token. Source: K.
    Lu and Thinking Machines Lab, On-policy distillation (2025); arXiv 2306.13649 with reverse KL.
    """
    return coefficient * zeroed(teacher - behaviour, mask)


def jensen_shannon(
    behaviour: torch.Tensor,
    teacher: torch.Tensor,
    mask: torch.Tensor,
    *,
    weight: float = 0.5,
    coefficient: float = 1.0,
    temperature: float = 1.0,
) -> torch.Tensor:
    """Return −coefficient · [w (t − m) + (1 − w) (s − m)] per token (B, C), zero outside the mask.

    m = log(w e^t + (1 − w) e^s) is the mixture, and w is `weight`, the teacher's share of it. At w
    = 0 and w = 1 the divergence is zero everywhere, so there the plain differences are returned: t
    − s (reverse KL) at 0 and s − t at 1. `temperature` divides both logprobs first. Source:
    generalised Jensen-Shannon divergence, arXiv 2306.13649, equation 1, at the sampled token.
    """
    s = zeroed(behaviour / temperature, mask)
    t = zeroed(teacher / temperature, mask)
    if weight <= 0:
        return coefficient * (t - s)
    if weight >= 1:
        return coefficient * (s - t)
    middle = torch.logaddexp(t + math.log(weight), s + math.log(1 - weight))
    # Where nothing is in the loss both are 0, and so is their mixture but for rounding.
    return zeroed(-coefficient * (weight * (t - middle) + (1 - weight) * (s - middle)), mask)
