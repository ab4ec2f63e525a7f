"""Losses of whole answers that people compared or judged: DPO for pairs, KTO for thumbs.

Both use the answer's log-ratio to the reference model, Δ(y) = Σ over tokens of log π − log π_ref.
"""

import torch
from torch.nn.functional import logsigmoid

from workers.algorithms.masking import row_sum
from workers.algorithms.tokens import RowLoss, Tokens


def dpo(tokens: Tokens, *, beta: float = 0.1, label_smoothing: float = 0.0) -> RowLoss:
    """Return −(1 − s) log σ(β (Δ(chosen) − Δ(rejected))) − s log σ(−β (…)) per pair, (B/2,).

    Rows 0, 2, … are the chosen and rows 1, 3, … the rejected answers. Each pair has its own
    sigmoid, so a micro-batch may hold any number of pairs. s is `label_smoothing`, the share of
    labels believed to be wrong. Source: arXiv 2305.18290, equation 7, and E. Mitchell's note on
    conservative DPO (2023) for the smoothing. Raises ValueError without reference logprobs or for
    half a pair.
    """
    if len(tokens.policy) % 2:
        raise ValueError(
            "the loss `dpo` needs pairs of rows, chosen then rejected, not "
            f"{len(tokens.policy)} rows"
        )
    chosen, rejected = logprob_distance(tokens, "dpo").view(-1, 2).unbind(1)
    margin = beta * (chosen - rejected)
    values = -(1 - label_smoothing) * logsigmoid(margin) - label_smoothing * logsigmoid(-margin)
    metrics = {
        "chosen_reward": beta * chosen.detach(),
        "rejected_reward": beta * rejected.detach(),
        "margin": margin.detach(),
        "right": (margin > 0).to(values.dtype),
    }
    return RowLoss(values, metrics)


def kto(
    tokens: Tokens,
    liked: torch.Tensor,
    baseline: torch.Tensor,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> RowLoss:
    """Return w (1 − σ(±β (Δ(y) − z))) per row (B,).

    For liked rows the sign is plus and w is `desirable_weight`, otherwise minus and
    `undesirable_weight`. `liked` is (B,) bool. `baseline` z, 0-dim, is the step's mean of
    `mismatched_kl`, never below 0 and without gradient: an answer counts as improved only as far as
    it moved more than the policy in general. Source: KTO, arXiv 2402.01306, equation 8.
    """
    moved = logprob_distance(tokens, "kto")
    sign = torch.full_like(moved, -1.0).masked_fill(liked.bool(), 1.0)
    weight = torch.full_like(moved, undesirable_weight).masked_fill(liked.bool(), desirable_weight)
    against = baseline.detach().clamp(min=0)
    values = weight * (1 - torch.sigmoid(sign * beta * (moved - against)))
    reward = beta * moved.detach()
    return RowLoss(
        values,
        {"reward": reward, "right": ((reward > beta * against) == liked.bool()).to(values.dtype)},
    )


@torch.no_grad()
def mismatched_kl(tokens: Tokens, in_update: int) -> torch.Tensor:
    """Return the micro-batch's share of KTO's baseline, 0-dim: the mean of Δ over mismatched rows.

    The answers of these rows belong to other prompts. `in_update` is the number of rows of the
    whole step. The shares of all micro-batches and ranks add up to the baseline.
    """
    return logprob_distance(tokens, "kto").sum() / max(in_update, 1)


def logprob_distance(tokens: Tokens, loss: str) -> torch.Tensor:
    """Return Δ(y) of each row, (B,), in nats.

    Raises ValueError, naming the loss, if there are no reference logprobs.
    """
    if tokens.reference is None:
        raise ValueError(f"the loss `{loss}` needs logprobs of a reference model")
    return row_sum(tokens.policy - tokens.reference, tokens.mask).squeeze(1)
