"""One forward pass: logprobs and entropy of every completion token, without a logit ever being kept.

Names relied on in TRL 1.16: a model given `add_fused_lm_head` takes `fused_lm_head=True` with `labels` and returns
`log_probs` and `entropy`, (B, P + C − 1), at the temperature given with it, and `aux_loss` when router logits are asked for.
Given it again, the newest temperature holds.
"""

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from trl.trainer.utils import add_fused_lm_head

from workers.trainer.collate import Row
from workers.vision.eyes import Eyes
from workers.vision.merging import text_of

IGNORED = -100  # label of what is not scored


@dataclass(frozen=True)
class Scores:
    """Of the completion tokens: natural logprobs and entropies (nats), both (B, C), with gradient.

    `balance`, 0-dim: how unevenly a mixture of experts uses them over this pass; None for other models.
    """

    policy: torch.Tensor
    entropy: torch.Tensor
    balance: torch.Tensor | None


@dataclass(frozen=True)
class Gallery:
    """What the rows of an update show, in the order that `batch["row"]` counts, and the eyes that read it."""

    rows: Sequence[Row]
    eyes: Eyes | None

    def text(self, model: torch.nn.Module, batch: dict[str, torch.Tensor], ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the model takes for `ids` (B, P + C): where none of these rows shows a picture, the ids themselves."""
        if "row" not in batch:
            return {"input_ids": ids}
        rows = [self.rows[number] for number in batch["row"].tolist()]
        padding = (batch["prompt_mask"].size(1) - batch["prompt_mask"].sum(1)).tolist()
        return text_of(model, self.eyes, ids, [row.pictures for row in rows], padding)


NO_PICTURES = Gallery((), None)


def scores(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], gallery: Gallery = NO_PICTURES, wants_balance: bool = False
) -> Scores:
    """Run the model once. `batch`: prompt_ids and prompt_mask (B, P), completion_ids and completion_mask (B, C), and
    `row` (B,) where rows of the `gallery` show pictures.
    """
    width = batch["completion_ids"].size(1)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    labels = ids.masked_fill(attention == 0, IGNORED)
    labels[:, :-width] = IGNORED
    routers = {"output_router_logits": True} if wants_balance else {}
    text = gallery.text(model, batch, ids)
    output = model(**text, attention_mask=attention, labels=labels, fused_lm_head=True, **routers)
    return Scores(output.log_probs[:, -width:], output.entropy[:, -width:], output.aux_loss if wants_balance else None)


def score(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], gallery: Gallery = NO_PICTURES
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logprobs and entropies alone."""
    found = scores(model, batch, gallery)
    return found.policy, found.entropy


def set_temperature(model: torch.nn.Module, temperature: float) -> None:
    """From now on the model's logprobs and entropies are those at this temperature."""
    whole = model.get_base_model() if isinstance(model, PeftModel) else model
    add_fused_lm_head(whole, temperature=temperature, outputs=("log_probs", "entropy"))


def loss_mask(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """(B, C), 1 where a token is in the loss: the policy (or the expert) chose it, and it is no padding."""
    return batch["completion_mask"] * batch.get("tool_mask", 1)


def split(batch: dict[str, Any], rows: int) -> list[dict[str, torch.Tensor]]:
    """The tensors that `score` reads, cut into parts of at most so many rows."""
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", *(["row"] if "row" in batch else []))
    parts = [batch[name].split(rows) for name in names]
    return [dict(zip(names, some, strict=True)) for some in zip(*parts, strict=True)]
