"""Forward pass: logprob and entropy of every completion token, without keeping logits.

Rows are packed (see `packing`) if the model allows it, and then only the states before tokens of
the loss go through the model's head. Otherwise the pass is TRL's own, over padded rows; on a CPU,
that pass also computes the logits of prompts and padding.

Names used from TRL 1.16: a model given `add_fused_lm_head` takes `fused_lm_head=True` with `labels`
and returns `log_probs` and `entropy`, (B, P + C − 1), at the temperature given with it, and
`aux_loss` when router logits are requested. If it is called again, the newest temperature holds. On
a GPU, `trl.kernels.ChunkedLogProbFunction` computes them from hidden states (N, hidden), the head's
weight and bias, targets (N,), a temperature and the width of a tile of logits. On a CPU, packed
rows use `tiled_logprobs` instead.
"""

import workers.trl_alone  # noqa: F401  (before TRL)

# isort: split

from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from types import MethodType
from typing import Any

import structlog
import torch
from peft import PeftModel
from torch.nn.parallel import DistributedDataParallel
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedModel
from trl.kernels import ChunkedLogProbFunction
from trl.trainer.utils import add_fused_lm_head

from workers.fast_linear import use_fast_linear
from workers.trainer import packing
from workers.trainer.collate import Row
from workers.trainer.dropout import disable_dropout
from workers.trainer.tiled_logprobs import TiledLogProbs
from workers.vision.image_processor import ImageProcessor
from workers.vision.merging import build_text_inputs

log = structlog.get_logger(__name__)
IGNORED = -100  # label of tokens that are not scored
OUTPUTS = ("log_probs", "entropy")
TILE = 1 << 22  # logits that exist at once on a CPU: 16 MiB, so that a tile stays near its caches
WIDEST = 1 << 15  # columns of a tile on a GPU, the same number as in TRL


@dataclass(frozen=True)
class Scores:
    """Logprobs (natural) and entropies (nats) of the completion tokens, (B, C), with gradient.

    `balance`, 0-dim, measures how unevenly a mixture of experts used its experts in this pass; it
    is None for other models.
    """

    policy: torch.Tensor
    entropy: torch.Tensor
    balance: torch.Tensor | None


@dataclass(frozen=True)
class Gallery:
    """Pictures of a step's rows, in the order of `batch["row"]`, and their processor."""

    rows: Sequence[Row]
    image_processor: ImageProcessor | None

    def text(
        self, model: torch.nn.Module, batch: dict[str, torch.Tensor], ids: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Return the model's inputs for `ids` (B, P + C): the ids if no row shows a picture."""
        if "row" not in batch:
            return {"input_ids": ids}
        rows = [self.rows[number] for number in batch["row"].tolist()]
        padding = (batch["prompt_mask"].size(1) - batch["prompt_mask"].sum(1)).tolist()
        return build_text_inputs(
            model, self.image_processor, ids, [row.pictures for row in rows], padding
        )


NO_PICTURES = Gallery((), None)


def scores(
    model: torch.nn.Module,
    batch: dict[str, torch.Tensor],
    gallery: Gallery = NO_PICTURES,
    wants_balance: bool = False,
) -> Scores:
    """Run the model once.

    `batch` has prompt_ids and prompt_mask (B, P), completion_ids and completion_mask (B, C), and
    `row` (B,) if rows of the `gallery` show pictures.
    """
    if packing.packs_rows(unwrap_policy(model)) and "row" not in batch and not wants_balance:
        return _packed_scores(model, batch)
    width = batch["completion_ids"].size(1)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    labels = ids.masked_fill(attention == 0, IGNORED)
    labels[:, :-width] = IGNORED
    routers = {"output_router_logits": True} if wants_balance else {}
    whole = unwrap_policy(model)
    text = {**gallery.text(whole, batch, ids), **_positions(whole, attention)}
    output = model(**text, attention_mask=attention, labels=labels, fused_lm_head=True, **routers)
    return Scores(
        output.log_probs[:, -width:],
        output.entropy[:, -width:],
        output.aux_loss if wants_balance else None,
    )


def _positions(whole: PreTrainedModel, attention: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the places of tokens in their rows, (B, P + C), for a text-only model.

    Without them, a model with learned positions would count the padding before a prompt.
    """
    takes_them = "position_ids" in signature(type(whole).forward).parameters
    if type(whole.config) not in MODEL_FOR_CAUSAL_LM_MAPPING or not takes_them:
        return {}
    return {"position_ids": (attention.cumsum(1) - 1).clamp(min=0)}


def score(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], gallery: Gallery = NO_PICTURES
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return only logprobs and entropies."""
    result = scores(model, batch, gallery)
    return result.policy, result.entropy


def prepare_scoring(model: torch.nn.Module, temperature: float = 1.0) -> None:
    """Make a model ready for `scores`, whose logprobs and entropies are those at `temperature`.

    They are the same in training mode as in evaluation mode, since dropout is switched off.
    """
    set_temperature(model, temperature)
    whole = unwrap_policy(model)
    disable_dropout(whole)
    use_fast_linear(whole)
    if reason := packing.prepare_packing(whole):
        log.info("rows_not_packed", model=type(whole).__name__, reason=reason)
    else:
        _accept_packed_rows(whole)


def set_temperature(model: torch.nn.Module, temperature: float) -> None:
    """Make the model compute its logprobs and entropies at this temperature from now on."""
    whole = unwrap_policy(model)
    # torch's stub knows tensors and modules alone as attributes of a module.
    whole.temperature_of_scores = temperature  # type: ignore[assignment]
    add_fused_lm_head(whole, temperature=temperature, outputs=OUTPUTS)


def unwrap_policy(model: torch.nn.Module) -> PreTrainedModel:
    """Return the policy itself, with adapters in its layers, without the wrapper of ranks."""
    if isinstance(model, DistributedDataParallel):
        model = model.module
    whole = model.get_base_model() if isinstance(model, PeftModel) else model
    assert isinstance(whole, PreTrainedModel)
    return whole


@dataclass(frozen=True)
class PackedRows:
    """Input of a packed pass: `targets` (S,) are the tokens whose logprobs are computed.

    `before` (S,) holds the places in `packing` of the tokens that precede the targets.
    """

    packing: packing.Packing
    before: torch.Tensor
    targets: torch.Tensor


def _accept_packed_rows(whole: PreTrainedModel) -> None:
    """Let the model take `packed_rows`; it then returns their logprobs and entropies, both (S,).

    A pass must call the wrapped model, not its parts: with several processes, the wrapper gathers
    weights and starts to reduce gradients.
    """
    other_forward = whole.forward

    def forward(
        self: PreTrainedModel, *args: Any, packed_rows: PackedRows | None = None, **kwargs: Any
    ) -> Any:
        if packed_rows is None:
            return other_forward(*args, **kwargs)
        hidden = packing.hidden_states(self.base_model, packed_rows.packing)
        return _log_probs(self, hidden[packed_rows.before], packed_rows.targets)

    whole.forward = MethodType(wraps(type(whole).forward)(forward), whole)


def _packed_scores(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> Scores:
    """Score the tokens of the loss; the others get zeros, which are never read."""
    mask = loss_mask(batch) != 0
    rows, spots = _texts(batch, mask)
    packed = packing.Packing.of(rows).to(mask.device)
    before = packed.places.gather(1, spots.to(mask.device))[mask]
    scored = model(packed_rows=PackedRows(packed, before, batch["completion_ids"][mask]))
    nothing = scored[0].new_zeros(mask.shape)
    policy, entropy = (nothing.masked_scatter(mask, values) for values in scored)
    return Scores(policy, entropy, None)


def _texts(
    batch: dict[str, torch.Tensor], mask: torch.Tensor
) -> tuple[list[list[int]], torch.Tensor]:
    """Return each row's token ids up to the last scored token, and where to read its states.

    The second value, (B, C) int64, is the place in the row of the token before each completion
    token.
    """
    prompts = _unpadded(batch["prompt_ids"], batch["prompt_mask"])
    completions = _unpadded(batch["completion_ids"], batch["completion_mask"])
    columns = torch.arange(mask.size(1), device=mask.device)
    needed = (mask * columns).amax(1).tolist()
    rows = [
        prompt + completion[:count]
        for prompt, completion, count in zip(prompts, completions, needed, strict=True)
    ]
    starts = torch.tensor([len(prompt) - 1 for prompt in prompts])
    spots = starts[:, None] + columns.cpu()
    return rows, spots.clamp(max=max(map(len, rows)) - 1)


def _unpadded(ids: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    return [
        row[row_mask].tolist() for row, row_mask in zip(ids.cpu(), mask.bool().cpu(), strict=True)
    ]


def _log_probs(
    whole: PreTrainedModel, hidden: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logprob of each target and the entropy after each of N hidden states, both (N,).

    They are computed tile by tile.
    """
    head = whole.get_output_embeddings()
    temperature: float = vars(whole)["temperature_of_scores"]  # see `set_temperature`
    if hidden.device.type == "cpu":
        # In float32 also under autocast, because rounding to 16 bits harms logits the most.
        width = min(WIDEST, max(1024, TILE // max(1, len(hidden))))
        weight = head.weight.float()
        with torch.autocast("cpu", enabled=False):
            return TiledLogProbs.apply(
                hidden.float(), weight, head.bias, targets, temperature, width
            )
    result = ChunkedLogProbFunction.apply(
        hidden, head.weight, head.bias, targets, temperature, WIDEST, None, 1.0, OUTPUTS[1:]
    )
    return result[0], result[1]


def loss_mask(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss mask (B, C): 1 for tokens that the policy or the expert chose."""
    return batch["completion_mask"] * batch.get("tool_mask", 1)


def split_batch(batch: dict[str, Any], rows: int) -> list[dict[str, torch.Tensor]]:
    """Return the tensors that `score` reads, cut into parts of at most `rows` rows."""
    names = (
        "prompt_ids",
        "prompt_mask",
        "completion_ids",
        "completion_mask",
        *(["row"] if "row" in batch else []),
    )
    parts = [batch[name].split(rows) for name in names]
    return [dict(zip(names, some, strict=True)) for some in zip(*parts, strict=True)]
