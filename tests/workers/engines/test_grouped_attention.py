"""Attention of one new token per row without copies of keys matches transformers' own."""

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from workers.engines.grouped_attention import IMPLEMENTATION, attention, use_grouped_attention

ROWS, WIDTH, SIZE = 5, 11, 8


class Layer(torch.nn.Module):
    is_causal = True

    def __init__(self, query_heads_of_a_group: int) -> None:
        super().__init__()
        self.num_key_value_groups = query_heads_of_a_group


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_attention_of_one_new_token_matches_transformers(groups):
    torch.manual_seed(0)
    query = torch.randn(ROWS, 6, 1, SIZE)
    key, value = (torch.randn(ROWS, groups, WIDTH, SIZE) for _ in range(2))
    lengths = torch.randint(1, WIDTH, (ROWS, 1))
    mask = torch.zeros(ROWS, WIDTH).masked_fill_(torch.arange(WIDTH) >= lengths, -torch.inf)
    given = (Layer(6 // groups), query, key, value, mask[:, None, None])
    found, _ = attention(*given, scaling=0.3)
    expected, _ = sdpa_attention_forward(*given, scaling=0.3)
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1e-6)


@torch.no_grad()
def test_token_by_token_logits_match_a_single_pass():
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=48,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            vocab_size=30,
        )
    ).eval()
    ids = torch.randint(30, (3, 9))
    expected = model(input_ids=ids).logits
    use_grouped_attention(model)
    assert model.config._attn_implementation == IMPLEMENTATION
    assert torch.allclose(model(input_ids=ids).logits, expected, atol=1e-5)
    cache = DynamicCache()
    for place in range(9):
        mask = torch.zeros(3, 1, 1, place + 1)
        out = model(
            input_ids=ids[:, place : place + 1],
            position_ids=torch.full((3, 1), place),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        )
        assert torch.allclose(out.logits[:, 0], expected[:, place], atol=1e-5)


def test_model_with_eager_attention_keeps_it():
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=8,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    use_grouped_attention(model)
    assert model.config._attn_implementation == "eager"
