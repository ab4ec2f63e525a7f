"""Packed rows of a forward pass: no padding, and common beginnings kept once.

Under causal attention a token's hidden state depends on nothing but the tokens before it. So rows
that begin alike (all answers to one prompt) share the states of their beginning: the model's layers
see each distinct beginning once, and the attention alone sees whole rows. Of 32 answers of 10
tokens to 4 prompts of 45 that is 500 tokens in place of 1,760. The same idea as in prefix trees of
serving engines (SGLang's RadixAttention, arXiv 2312.07104), with gradients: what comes back to a
shared token is the sum over its rows.

Names relied on in transformers 5.19: `AttentionInterface.register`, `AttentionMaskInterface`,
`PreTrainedModel._supports_attention_backend` (a model that says so hands keyword arguments of its
forward pass on to its attention), `config._attn_implementation`, and that a mask of 4 dimensions
is used as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

IMPLEMENTATION = "rftweb_packed"
PLAIN = "sdpa"  # what a model must use for itself to be packed
# What some models do with logits between their head and the softmax.
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

    ids        (N,) int64
    positions  (N,) int64: how many tokens stand before each in its row
    places     (B, T) int64: the token at each place; behind a row's end its last one again
    first      (N,) int64: one place of each token, counted through (B, T)
    """

    ids: torch.Tensor
    positions: torch.Tensor
    places: torch.Tensor
    first: torch.Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Packing":
        """Lay out rows of token ids, none of them empty."""
        width = max(map(len, rows))
        known: dict[tuple[int, int], int] = {}
        ids: list[int] = []
        positions: list[int] = []
        first: list[int] = []
        places: list[list[int]] = []
        for number, row in enumerate(rows):
            own = []
            before = -1
            for position, token in enumerate(row):
                place = known.setdefault((before, token), len(ids))
                if place == len(ids):
                    ids.append(token)
                    positions.append(position)
                    first.append(number * width + position)
                own.append(place)
                before = place
            places.append(own + own[-1:] * (width - len(own)))
        return cls(*map(torch.tensor, (ids, positions, places, first)))

    def to(self, device: torch.device) -> "Packing":
        """Return the same on a device."""
        parts = (self.ids, self.positions, self.places, self.first)
        return Packing(*(part.to(device) for part in parts))

    def unfold(self, states: torch.Tensor) -> torch.Tensor:
        """Unpack the tokens into rows: (1, heads, N, d) → (B, heads, T, d)."""
        heads, _, width = states.shape[1:]
        flat = states[0].transpose(0, 1).reshape(-1, heads * width)
        rows = functional.embedding(self.places, flat)
        return rows.unflatten(-1, (heads, width)).transpose(1, 2)

    def fold(self, states: torch.Tensor) -> torch.Tensor:
        """Keep each token once: (B, heads, T, d) → (1, N, heads, d)."""
        heads, _, width = states.shape[1:]
        flat = states.transpose(1, 2).reshape(-1, heads * width)
        return functional.embedding(self.first, flat).view(1, -1, heads, width)


def hidden_states(backbone: torch.nn.Module, packing: Packing) -> torch.Tensor:
    """Run the layers of a model that `is_packable`; (N, hidden), with gradient."""
    output = backbone(
        input_ids=packing.ids[None],
        position_ids=packing.positions[None],
        attention_mask=packing.ids.new_zeros(1, 1, 1, 1),  # not read: there is no mask to be made
        packing=packing,
        use_cache=False,
    )
    return output.last_hidden_state[0]


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    packing: Packing | None = None,
    scaling: float | None = None,
    **kwargs: object,
) -> tuple[torch.Tensor, None]:
    """Attend row by row where the pass is packed, else as transformers' own sdpa does."""
    if packing is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    # Queries and keys are float32 after the rotation under autocast: values too, so that gradients
    # of a token's rows are not added up in 16 bits.
    query, key, value = map(packing.unfold, (query, key, value.to(key.dtype)))
    groups = query.size(1) // key.size(1)
    key = repeat_kv(key, groups)
    value = repeat_kv(value, groups)
    attend = functional.scaled_dot_product_attention
    mixed = attend(query, key, value, is_causal=True, scale=scaling)
    return packing.fold(mixed), None


AttentionInterface.register(IMPLEMENTATION, attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def prepare_packing(model: torch.nn.Module) -> str:
    """Have the model's rows packed from now on; returns why it cannot be, or nothing."""
    if reason := why_not_packable(model):
        return reason
    model.config._attn_implementation = IMPLEMENTATION
    gap = _gap(model)
    if not gap <= CLOSE:
        model.config._attn_implementation = PLAIN
        return f"packed rows give hidden states that differ by {gap:.2g}"
    return ""


def packs_rows(model: torch.nn.Module) -> bool:
    """Tell whether `prepare_packing` has prepared this model."""
    return model.config._attn_implementation == IMPLEMENTATION


def why_not_packable(model: torch.nn.Module) -> str:
    """Return why rows of this model cannot be packed, by its configuration; "" if they can."""
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
    dropouts = (module for module in model.modules() if isinstance(module, torch.nn.Dropout))
    if getattr(config, "attention_dropout", 0) or any(module.p for module in dropouts):
        return "it has dropout"
    return ""


CLOSE = 1e-2  # between hidden states; those of a wrong row differ by about 1
ALIKE = ((0, 1, 2, 3, 4), (0, 1, 2, 5, 6))  # two rows that begin alike


@torch.no_grad()
def _gap(model: torch.nn.Module) -> float:
    """Return the largest difference between hidden states of packed and unpacked rows."""
    device = model.get_input_embeddings().weight.device
    rows = torch.tensor(ALIKE, device=device)
    plain = model.base_model(input_ids=rows, use_cache=False).last_hidden_state
    packing = Packing.of(ALIKE).to(device)
    packed = functional.embedding(packing.places, hidden_states(model.base_model, packing))
    return float((packed - plain).abs().max())
