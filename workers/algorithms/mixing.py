"""Combine own samples and expert rows in one step: MIX, and CHORD's schedule.

    J = (1 − μ) · J_usual + μ · J_expert

Each part is normalised by its own rows or tokens of the whole step. So neither the share of
expert rows nor the size of a micro-batch changes the weights, and a micro-batch without rows of one
kind adds exactly zero for that part. The expert part is averaged in one of two ways:
`seq-mean-token-mean` is the published objective (every demonstration weighs the same), `token-mean`
is the one usually run (a long demonstration weighs more). The two differ as soon as lengths do.

Source: MIX, arXiv 2505.17826 section 3.2; CHORD, arXiv 2508.11408.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workers.algorithms.aggregation import aggregate
from workers.algorithms.tokens import TokenLoss, Tokens, Window


@dataclass(frozen=True)
class Kind:
    """One kind of row: its loss with bound options, the aggregation, and the totals of its rows.

    The totals are those of the whole step.
    """

    loss: Callable[[Tokens], TokenLoss]
    aggregation: str
    window: Window


@dataclass(frozen=True)
class MixedLoss:
    """A micro-batch's shares: the loss to minimise, and its two parts.

    The parts are given before weighing (0-dim), and per token.
    """

    loss: torch.Tensor
    usual: torch.Tensor
    expert: torch.Tensor
    usual_tokens: TokenLoss
    expert_tokens: TokenLoss


def mix(tokens: Tokens, usual: Kind, expert: Kind, mu: float) -> MixedLoss:
    """Apply one loss to usual rows and the other to expert rows, and combine the two.

    Raises ValueError without `tokens.is_expert`.
    """
    if tokens.is_expert is None:
        raise ValueError("mixing needs to know which rows are an expert's (`is_expert`)")
    by_expert = tokens.is_expert.bool()
    usual_part = tokens.only(~by_expert)
    expert_part = tokens.only(by_expert)
    usual_tokens = usual.loss(usual_part)
    expert_tokens = expert.loss(expert_part)
    usual_share = aggregate(usual_tokens.values, usual_part.mask, usual.aggregation, usual.window)
    expert_share = aggregate(
        expert_tokens.values, expert_part.mask, expert.aggregation, expert.window
    )
    return MixedLoss(
        blend(usual_share, expert_share, mu), usual_share, expert_share, usual_tokens, expert_tokens
    )


def blend(usual: torch.Tensor, expert: torch.Tensor, mu: float) -> torch.Tensor:
    """Return (1 − μ) · usual + μ · expert."""
    return (1 - mu) * usual + mu * expert


def chord_mu(step: int, *, warmup: int, decay: int, peak: float, valley: float) -> float:
    """Return CHORD's μ at `step`, counted from 0: warm-up, cosine decay, then constant.

    μ rises linearly from 0 to `peak` in `warmup` updates, falls along half a cosine to `valley` in
    `decay` steps, and stays there. With both 0, it is `valley` from the start.
    """
    if step < warmup:
        return peak * step / warmup
    if step >= warmup + decay:
        return valley
    return valley + (peak - valley) * (1 + math.cos(math.pi * (step - warmup) / decay)) / 2
