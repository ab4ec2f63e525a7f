"""Pack the rows of a forward pass: no padding, and common beginnings computed once.

Under causal attention, a token's hidden state depends only on the tokens before it. So rows that
begin alike (all answers to one prompt) share the states of their beginning: the model's layers
process each distinct beginning once, and only the attention sees whole rows. For 32 answers of 10
tokens to 4 prompts of 45, that is 500 tokens instead of 1,760. Prefix trees of serving engines use
the same idea (SGLang's RadixAttention, arXiv 2312.07104). Here it has gradients: the gradient of a
shared token is the sum over its rows.

Names used from transformers 5.19: `AttentionInterface.register`, `AttentionMaskInterface`,
`PreTrainedModel._supports_attention_backend` (such a model passes keyword arguments of its forward
pass to its attention), `config._attn_implementation`, and that a mask of 4 dimensions is used
unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from workers.trainer.dropout import has_dropout

IMPLEMENTATION = "rftweb_packed"
PLAIN = "sdpa"  # the attention that a model must use to be packed
# Settings by which some models change logits between their head and the softmax.
SCALED_HEADS = (
    "final_logit_softcapping",
    "logit_scale",
    "output_multiplier",
    "lm_head_multiplier",
    "logits_scaling",
)


@dataclass(frozen=True)
class Packing:
    """Layout of B rows of at most T tokens as N distinct tokens.

    | field | shape | contents |
    |---|---|---|
    | ids | (N,) int64 | token ids |
    | positions | (N,) int64 | how many tokens precede each token in its row |
    | places | (B, T) int64 | the token at each place; behind a row's end, the row's last token |
    | first | (N,) int64 | one place of each token, counted through (B, T) |
    """

    ids: torch.Tensor
    positions: torch.Tensor
    places: torch.Tensor
    first: torch.Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Packing":
        """Lay out rows of token ids; no row may be empty."""
        width = max(map(len, rows))
        place_of: dict[tuple[int, int], int] = {}
        ids: list[int] = []
        positions: list[int] = []
        first: list[int] = []
        places: list[list[int]] = []
        for number, row in enumerate(rows):
            row_places = []
            before = -1
            for position, token in enumerate(row):
                place = place_of.setdefault((before, token), len(ids))
                if place == len(ids):
                    ids.append(token)
                    positions.append(position)
                    first.append(number * width + position)
                row_places.append(place)
                before = place
            places.append(row_places + row_places[-1:] * (width - len(row_places)))
        return cls(*map(torch.tensor, (ids, positions, places, first)))

    def to(self, device: torch.device) -> "Packing":
        """Return the same layout on a device."""
        parts = (self.ids, self.positions, self.places, self.first)
        return Packing(*(part.to(device) for part in parts))

    def unfold(self, states: torch.Tensor) -> torch.Tensor:
        """Unpack the tokens into rows: (1, heads, N, d) → (B, heads, T, d)."""
        heads, _, width = states.shape[1:]
        flat = states[0].transpose(0, 1).reshape(-1, heads * width)
        rows = functional.embedding(self.places, flat)
        split: torch.Tensor = rows.unflatten(-1, (heads, width))
        return split.transpose(1, 2)

    def fold(self, states: torch.Tensor) -> torch.Tensor:
        """Keep each token once: (B, heads, T, d) → (1, N, heads, d)."""
        heads, _, width = states.shape[1:]
        flat = states.transpose(1, 2).reshape(-1, heads * width)
        return functional.embedding(self.first, flat).view(1, -1, heads, width)


def hidden_states(backbone: torch.nn.Module, packing: Packing) -> torch.Tensor:
    """Run the layers of a model that `packs_rows`; return (N, hidden), with gradient."""
    output = backbone(
        input_ids=packing.ids[None],
        position_ids=packing.positions[None],
        attention_mask=packing.ids.new_zeros(1, 1, 1, 1),  # not read, since no mask is built
        packing=packing,
        use_cache=False,
    )
    hidden: torch.Tensor = output.last_hidden_state[0]
    return hidden


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    packing: Packing | None = None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend row by row if the pass is packed, otherwise like transformers' own sdpa."""
    if packing is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    # Under autocast, queries and keys are float32 after the rotation. Values become float32 too, so
    # that the gradients of a token's rows are not added up in 16 bits.
    query, key, value = map(packing.unfold, (query, key, value.to(key.dtype)))
    groups = query.size(1) // key.size(1)
    key = repeat_kv(key, groups)
    value = repeat_kv(value, groups)
    attend = functional.scaled_dot_product_attention
    mixed = attend(query, key, value, is_causal=True, scale=scaling)
    return packing.fold(mixed), None


AttentionInterface.register(IMPLEMENTATION, attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def prepare_packing(model: PreTrainedModel) -> str:
    """Pack the rows of this model from now on; return why that is impossible, or ""."""
    if reason := why_not_packable(model):
        return reason
    model.config._attn_implementation = IMPLEMENTATION
    gap = _gap(model)
    if not gap <= CLOSE:
        model.config._attn_implementation = PLAIN
        return f"packed rows give hidden states that differ by {gap:.2g}"
    return ""


def packs_rows(model: PreTrainedModel) -> bool:
    """Tell whether `prepare_packing` has prepared this model."""
    return bool(model.config._attn_implementation == IMPLEMENTATION)


def why_not_packable(model: PreTrainedModel) -> str:
    """Return why this model's configuration prevents packing; "" if it does not."""
    config = model.config
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return "it is not a text-only model"
    if config._attn_implementation != PLAIN or not model._supports_attention_backend:
        return "its attention implementation cannot be replaced"
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"}:
        return "not all layers attend to the whole text"
    slides = getattr(config, "use_sliding_window", True)
    if slides and getattr(config, "sliding_window", None):
        return "it uses sliding-window attention"
    if any(getattr(config, name, None) is not None for name in SCALED_HEADS):
        return "it scales its logits"
    if has_dropout(model):
        return "it has dropout"
    return ""


CLOSE = 1e-2  # between hidden states; those of different rows differ by about 1
ALIKE = ((0, 1, 2, 3, 4), (0, 1, 2, 5, 6))  # two rows that begin alike


@torch.no_grad()
def _gap(model: PreTrainedModel) -> float:
    """Return the largest difference between hidden states of packed and unpacked rows."""
    device = model.device
    rows = torch.tensor(ALIKE, device=device)
    plain = model.base_model(input_ids=rows, use_cache=False).last_hidden_state
    packing = Packing.of(ALIKE).to(device)
    packed = functional.embedding(packing.places, hidden_states(model.base_model, packing))
    return float((packed - plain).abs().max())
