"""Packed rows: each common prefix is computed once; logprobs, entropies and gradients are equal."""

import random
from dataclasses import replace

import pytest
import torch
from peft import get_peft_model
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from workers.trainer import forward, lora, packing
from workers.trainer.collate import Row, collate
from workers.trainer.packing import Packing
from workers.trainer.spec import Lora

VOCABULARY = 4096
ROUNDING = 2e-5  # of float32, with sums in another order
# For bfloat16, relative to the norm of the gradient; 0.040 was measured for these weights.
IN_BFLOAT16 = 0.06
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
}


def llama(**fields: object) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(**SMALL, tie_word_embeddings=True, initializer_range=0.2, **fields)
    return LlamaForCausalLM(config).train()


def grouped(groups: int = 3, size: int = 4) -> list[Row]:
    """Return answers and prompts of different lengths, some with tool tokens."""
    draw = random.Random(0)
    rows = []
    for _ in range(groups):
        prompt = tuple(draw.randrange(VOCABULARY) for _ in range(draw.randint(3, 12)))
        rows += [_answer(draw, prompt) for _ in range(size)]
    return rows


def _answer(draw: random.Random, prompt: tuple[int, ...]) -> Row:
    length = draw.randint(1, 9)
    mask = [1] * length
    mask[draw.randrange(length)] = int(length < 4)
    ids = tuple(draw.randrange(VOCABULARY) for _ in range(length))
    return Row(prompt, ids, tuple(mask), (-3.0,) * length, draw.gauss(0, 1))


def weighed(policy: torch.Tensor, entropy: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return a sum that weights the logprob and entropy of each loss token differently."""
    weights = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1))
    return torch.where(mask != 0, weights * policy + 0.3 * weights.sin() * entropy, 0.0).sum()


def obvious(model: torch.nn.Module, rows: list[Row], temperature: float = 1.0):
    """Return logprobs and entropies row by row from all logits, as lists of (C,) tensors."""
    found = []
    for row in rows:
        ids = torch.tensor([row.prompt_ids + row.completion_ids])
        logits = model(ids, use_cache=False).logits[0, len(row.prompt_ids) - 1 : -1].float()
        logprobs = functional.log_softmax(logits / temperature, -1)
        targets = torch.tensor(row.completion_ids)[:, None]
        found.append((logprobs.gather(1, targets)[:, 0], -(logprobs.exp() * logprobs).sum(-1)))
    return found


def gradient(model: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    learned = [p for p in model.parameters() if p.requires_grad]
    return torch.cat([p.grad.flatten() for p in learned])


def padded(values: list[torch.Tensor], width: int) -> torch.Tensor:
    return torch.stack([functional.pad(row, (0, width - len(row))) for row in values])


def compare(model: torch.nn.Module, rows: list[Row], temperature: float = 1.0) -> None:
    """Compare values and gradients of packed rows with those of row-by-row computation."""
    batch = collate(rows, 0)
    mask = forward.loss_mask(batch)
    by_row = zip(*obvious(model, rows, temperature), strict=True)
    slow = [padded(list(values), mask.size(1)) for values in by_row]
    wanted = gradient(model, weighed(*slow, mask))
    forward.prepare_scoring(model, temperature)
    assert packing.packs_rows(forward.unwrap_policy(model))
    policy, entropy = forward.score(model, batch)
    kept = mask != 0
    torch.testing.assert_close(policy[kept], slow[0][kept], rtol=ROUNDING, atol=ROUNDING)
    torch.testing.assert_close(entropy[kept], slow[1][kept], rtol=ROUNDING, atol=ROUNDING)
    found = gradient(model, weighed(policy, entropy, mask))
    assert wanted.norm() > 0
    assert float((found - wanted).norm() / wanted.norm()) < ROUNDING


def test_each_distinct_prefix_is_kept_once():
    packed = Packing.of([[5, 6, 7], [5, 6, 8, 9], [6, 5], [5, 6, 7]])
    assert packed.ids.tolist() == [5, 6, 7, 8, 9, 6, 5]
    assert packed.positions.tolist() == [0, 1, 2, 2, 3, 0, 1]
    assert packed.places.tolist() == [[0, 1, 2, 2], [0, 1, 3, 4], [5, 6, 6, 6], [0, 1, 2, 2]]
    assert packed.places.flatten()[packed.first].tolist() == list(range(7))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_rows_match_row_by_row_computation(temperature):
    compare(llama(), grouped(), temperature)


def test_equal_rows_and_rows_without_a_common_prefix_are_packed():
    rows = grouped(4, 1)
    compare(llama(), [*rows, rows[0], rows[0]])


def test_qwen3_is_packed():
    torch.manual_seed(0)
    config = Qwen3Config(**SMALL, tie_word_embeddings=False, initializer_range=0.2)
    compare(Qwen3ForCausalLM(config).train(), grouped())


def test_adapters_are_trained_on_packed_rows():
    plan = lora.build_lora_config(Lora(4, 8.0, ("q_proj", "down_proj")))
    model = get_peft_model(llama(), plan)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1)
    compare(model, grouped())


def test_packing_works_with_gradient_checkpointing():
    model = llama()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    compare(model, grouped())


def test_bfloat16_gradient_is_close_to_float32():
    model = llama()
    rows = grouped()
    batch = collate(rows, 0)
    mask = forward.loss_mask(batch)
    forward.prepare_scoring(model)
    wanted = gradient(model, weighed(*forward.score(model, batch), mask))
    with torch.autocast("cpu", torch.bfloat16):
        found = gradient(model, weighed(*forward.score(model, batch), mask))
    assert 0 < float((found - wanted).norm() / wanted.norm()) < IN_BFLOAT16


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2)), "dropout"),
        (lambda: llama(attention_dropout=0.1), "dropout"),
        (lambda: llama(sliding_window=8), "window"),
        (lambda: llama(logits_scaling=4.0), "logits"),
    ],
)
def test_models_that_cannot_be_packed_report_the_reason(model, reason):
    model = model()
    assert reason in packing.prepare_packing(model)
    assert not packing.packs_rows(model)


def test_model_that_ignores_the_packing_is_not_packed(monkeypatch):
    model = llama()
    monkeypatch.setattr(packing, "hidden_states", lambda backbone, packed: torch.zeros(7, 64))
    assert "differ" in packing.prepare_packing(model)
    assert not packing.packs_rows(model)


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation creates."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return made


def test_logits_of_all_tokens_never_exist_at_once(monkeypatch):
    monkeypatch.setattr(forward, "TILE", 1 << 16)
    model = llama()
    rows = grouped(8, 8)
    batch = collate([replace(row, action_mask=(1,) * len(row.action_mask)) for row in rows], 0)
    forward.prepare_scoring(model)
    with Largest() as largest:
        policy, entropy = forward.score(model, batch)
        weighed(policy, entropy, batch["completion_mask"]).backward()
    head = VOCABULARY * SMALL["hidden_size"]  # its gradient is the largest tensor
    scored = int(batch["completion_mask"].sum())
    assert largest.elements <= max(head, 1024 * scored)
    assert largest.elements < scored * VOCABULARY // 2
