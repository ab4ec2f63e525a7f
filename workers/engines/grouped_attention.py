"""Attention for one new token per row, in which query heads share their keys without copies.

Under grouped-query attention (arXiv 2305.13245) several query heads read the same keys and values.
When there is a mask, transformers copies keys and values once for each query head. While one token
per row is decoded, the query heads of a group can take the place of query positions instead, since
all of them see the same columns. Then nothing is copied, and the products are the same.

Names used from transformers 5.19: `AttentionInterface.register`, `AttentionMaskInterface.register`,
`PreTrainedModel._supports_attention_backend`, `config._attn_implementation`.
"""

from typing import Any

import torch
from torch.nn import functional
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

IMPLEMENTATION = "rftweb_grouped"
REPLACED = "sdpa"


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers' "sdpa" does; `query` is (R, heads, T, size), `key` (R, groups, …).

    Returns (R, T, heads, size).
    """
    rows, heads, tokens, size = query.shape
    if (
        tokens > 1
        or heads == key.shape[1]
        or attention_mask is None
        or options.get("position_bias")
    ):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    grouped = query.reshape(rows, key.shape[1], -1, size)
    mixed = functional.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=scaling
    )
    return mixed.reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(IMPLEMENTATION, attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Make a text-only model use this attention, unless it brings its own."""
    config = model.config
    is_plain = config._attn_implementation == REPLACED and model._supports_attention_backend
    if is_plain and type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        config._attn_implementation = IMPLEMENTATION
