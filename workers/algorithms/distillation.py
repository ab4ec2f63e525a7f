"""Advantages from a teacher that judges each sampled token, in place of a reward.

s and t are the student's and the teacher's logprobs of the token that the student sampled, (B, C),
in nats; the student's are those of sampling. Use them with `importance_sampling` or `ppo`,
aggregated over tokens.
"""

import math

import torch

from workers.algorithms.masking import zeroed
from workers.algorithms.ratios import LIMIT


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
    """Return coefficient · (1 − w) (m − s) per token (B, C), zero outside the mask.

    m = log(w e^t + (1 − w) e^s) is the mixture, and w is `weight`, the teacher's share of it. Used
    as advantages, these give the policy gradient of the divergence w KL(t‖m) + (1 − w) KL(s‖m).
    Its term w (t − m) has no part in them: its derivative by the student is a constant. At both
    ends the divergence is zero everywhere, so there the advantages are those of its limit, divided
    by w or 1 − w: e^(t − s) − 1 at w = 0 (forward KL) and t − s at w = 1 (reverse KL).
    `temperature` divides both logprobs first. Source: generalised Jensen-Shannon divergence, arXiv
    2306.13649, equation 1.
    """
    s = zeroed(behaviour / temperature, mask)
    t = zeroed(teacher / temperature, mask)
    if weight <= 0:
        return coefficient * (t - s).clamp(max=LIMIT).expm1()
    if weight >= 1:
        return coefficient * (t - s)
    middle = torch.logaddexp(t + math.log(weight), s + math.log1p(-weight))
    # Where nothing is in the loss both are 0, and so is their mixture but for rounding.
    return zeroed(coefficient * (1 - weight) * (middle - s), mask)
