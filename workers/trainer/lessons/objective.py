"""A micro-batch's share of the loss of a preference run, by the loss's name.

DPO and KTO are in `workers.algorithms.losses.preferences`. The reward model's loss is here, because
it uses scores instead of tokens.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import logsigmoid

from workers.algorithms.losses.preferences import dpo, kto
from workers.algorithms.tokens import RowLoss, Tokens


def token_loss(
    name: str,
    options: Mapping[str, Any],
    tokens: Tokens,
    batch: dict[str, torch.Tensor],
    baseline: torch.Tensor | None,
) -> RowLoss:
    """Return the loss of pairs (dpo) or thumbs (kto) before averaging.

    `baseline` is KTO's, 0-dim.
    """
    if name == "dpo":
        return dpo(tokens, **options)
    assert baseline is not None
    return kto(tokens, batch["liked"], baseline, **options)


def bradley_terry(scores: torch.Tensor, margins: torch.Tensor) -> RowLoss:
    """Return −log σ(s(chosen) − s(rejected) − m) per pair, (B/2,), from `scores` (B,).

    Chosen and rejected answers alternate. `margins` (B/2,) is NaN where no margin was given, and
    then m = 0. Source: Bradley and Terry 1952; the margin as in Llama 2, arXiv 2307.09288, equation
    2. Raises ValueError for half a pair.
    """
    if len(scores) % 2:
        raise ValueError(
            f"a reward model learns from pairs, chosen then rejected; there are {len(scores)} rows"
        )
    chosen, rejected = scores.view(-1, 2).unbind(1)
    gap = chosen - rejected
    values = -logsigmoid(gap - margins.nan_to_num(0.0).to(gap.dtype))
    metrics = {
        "chosen_reward": chosen.detach(),
        "rejected_reward": rejected.detach(),
        "margin": gap.detach(),
    }
    return RowLoss(values, {**metrics, "right": (gap.detach() > 0).to(values.dtype)})


def build_lesson_tokens(
    policy: torch.Tensor, reference: torch.Tensor, batch: dict[str, torch.Tensor]
) -> Tokens:
    """Return logprobs (B, C) under the names that the losses use.

    There is no behaviour policy, and these losses do not read one.
    """
    return Tokens(
        policy=policy,
        behaviour=policy.detach(),
        mask=batch["completion_mask"],
        advantages=torch.zeros_like(policy),
        reference=reference,
    )
