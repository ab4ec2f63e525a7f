"""The objective again, row by row and token by token, in float64 and without padding: the
reference for the fast version.
"""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from workers.trainer.collate import Row
from workers.trainer.spec import Objective, TrainerSpec


def load(policy: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float64)


def logprobs(model: PreTrainedModel, row: Row, temperature: float) -> torch.Tensor:
    """Return the logprobs (C,) of the row's completion."""
    return _distributions(model, row, temperature).gather(
        1, torch.tensor(row.completion_ids)[:, None]
    )[:, 0]


def entropies(model: PreTrainedModel, row: Row, temperature: float) -> torch.Tensor:
    """Return the entropies (C,) in nats."""
    whole = _distributions(model, row, temperature)
    return -(whole.exp() * whole).sum(1)


def loss(
    model: PreTrainedModel, reference: PreTrainedModel, rows: list[Row], spec: TrainerSpec
) -> torch.Tensor:
    """Return (1 − mu) · PPO's clip on usual rows + mu · cross-entropy on expert rows + KL (k3) −
    entropy, for a whole batch.
    """
    plan = spec.objective
    usual = [row for row in rows if not row.is_expert]
    expert = [row for row in rows if row.is_expert]
    width = spec.max_completion_length
    total = torch.zeros((), dtype=torch.float64)
    if usual:
        clipped = [_clipped(model, reference, row, spec) for row in usual]
        total = total + (1 - plan.experts.mu) * averaged(clipped, plan.aggregation, width)
    if expert:
        shown = [-_kept(logprobs(model, row, spec.temperature), row) for row in expert]
        total = total + plan.experts.mu * averaged(shown, plan.experts.aggregation, width)
    if usual and plan.kl.is_used and plan.kl.where == "loss":
        gaps = [_kept(_k3(model, reference, row, spec.temperature), row) for row in usual]
        total = total + plan.kl.coefficient * averaged(gaps, plan.aggregation, width)
    if usual and plan.entropy:
        spread = [_kept(entropies(model, row, spec.temperature), row) for row in usual]
        total = total - plan.entropy * averaged(spread, "token-mean", width)
    return total


def averaged(rows: list[torch.Tensor], mode: str, width: int) -> torch.Tensor:
    """Return the aggregate of DAPO (arXiv 2503.14476), GRPO (2402.03300), sums, or Dr. GRPO
    (2503.20783)."""
    match mode:
        case "token-mean":
            return sum(values.sum() for values in rows) / sum(len(values) for values in rows)
        case "seq-mean-token-mean":
            return sum(values.mean() for values in rows) / len(rows)
        case "seq-mean-token-sum":
            return sum(values.sum() for values in rows) / len(rows)
        case "seq-mean-token-sum-norm":
            return sum(values.sum() for values in rows) / (len(rows) * width)
    raise ValueError(mode)


def _distributions(model: PreTrainedModel, row: Row, temperature: float) -> torch.Tensor:
    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    logits = model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1] / temperature
    return torch.log_softmax(logits, -1)


def _kept(values: torch.Tensor, row: Row) -> torch.Tensor:
    return torch.stack(
        [value for value, chosen in zip(values, row.action_mask, strict=True) if chosen]
    )


def _k3(
    model: PreTrainedModel, reference: PreTrainedModel, row: Row, temperature: float
) -> torch.Tensor:
    with torch.no_grad():
        base = logprobs(reference, row, temperature)
    back = base - logprobs(model, row, temperature)
    return torch.exp(back) - back - 1


def _clipped(
    model: PreTrainedModel, reference: PreTrainedModel, row: Row, spec: TrainerSpec
) -> torch.Tensor:
    plan: Objective = spec.objective
    low = plan.loss.options["clip_low"]
    high = plan.loss.options["clip_high"]
    behaviour = torch.tensor(row.behaviour_logprobs, dtype=torch.float64)
    ratio = torch.exp(logprobs(model, row, spec.temperature) - behaviour)
    advantage = torch.full_like(ratio, row.advantage)
    if plan.kl.is_used and plan.kl.where == "reward":
        with torch.no_grad():
            back = logprobs(reference, row, spec.temperature) - behaviour
        advantage = advantage - plan.kl.coefficient * (torch.exp(back) - back - 1)
    return _kept(-torch.min(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage), row)
