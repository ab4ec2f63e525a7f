"""The clipped policy-gradient losses once more, row by row, token by token, in float64: the oracle of the fast path."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from workers.trainer.collate import Row
from workers.trainer.spec import TrainerSpec


def load(policy: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float64)


def logprobs(model: PreTrainedModel, row: Row, temperature: float) -> torch.Tensor:
    """(C,) of the row's completion, without any padding."""
    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    logits = model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1] / temperature
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(row.completion_ids)[:, None])[:, 0]


def loss(model: PreTrainedModel, reference: PreTrainedModel, rows: list[Row], spec: TrainerSpec) -> torch.Tensor:
    """DAPO (arXiv 2503.14476), GRPO (2402.03300), BNPO and Dr. GRPO (2503.20783) over one whole batch."""
    per_row = [_token_losses(model, reference, row, spec) for row in rows]
    tokens = sum(sum(row.action_mask) for row in rows)
    match spec.loss_type:
        case "dapo" | "bnpo":
            return sum(values.sum() for values in per_row) / tokens
        case "grpo":
            return sum(values.sum() / sum(row.action_mask) for values, row in zip(per_row, rows, strict=True)) / len(rows)
        case "dr_grpo":
            return sum(values.sum() for values in per_row) / (len(rows) * spec.max_completion_length)
    raise ValueError(spec.loss_type)


def _token_losses(model: PreTrainedModel, reference: PreTrainedModel, row: Row, spec: TrainerSpec) -> torch.Tensor:
    now = logprobs(model, row, spec.temperature)
    with torch.no_grad():
        base = logprobs(reference, row, spec.temperature)
    losses = []
    for t, chosen in enumerate(row.action_mask):
        if not chosen:
            continue
        ratio = torch.exp(now[t] - row.behaviour_logprobs[t])
        clipped = ratio.clamp(1 - spec.epsilon_low, 1 + spec.epsilon_high)
        kl = torch.exp(base[t] - now[t]) - (base[t] - now[t]) - 1
        losses.append(-torch.min(ratio * row.advantage, clipped * row.advantage) + spec.beta * kl * ratio)
    return torch.stack(losses)
