"""The memory that a pass keeps for its backward pass is compared with the estimate."""

import random

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from apps.policies.shape import read_model_shape
from apps.runs.memory import Sizes, estimate_memory, rows_per_pass
from apps.runs.parsing import parse_config
from workers.trainer import forward
from workers.trainer.collate import Row, collate

PROMPT, ANSWER, GROUP, GROUPS = 24, 40, 4, 3
MODEL = {
    "vocab_size": 64,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
PLAN = {
    "policy": "p",
    "taskset": "t",
    "steps": 1,
    "group_size": GROUP,
    "groups_per_step": GROUPS,
    "rewards": [{"scorer": "sort"}],
    "sampling": {"max_prompt_tokens": PROMPT, "max_tokens": ANSWER},
    "algorithm": {"name": "grpo", "kl": "none"},
}


def rows() -> list[Row]:
    draw = random.Random(0)
    found = []
    for _ in range(GROUPS):
        prompt = tuple(draw.choices(range(64), k=PROMPT))
        for _ in range(GROUP):
            answer = tuple(draw.choices(range(64), k=ANSWER))
            mask = (1,) * ANSWER
            found.append(Row(prompt, answer, mask, (-4.0,) * ANSWER, draw.gauss(0, 1)))
    return found


def model(gradient_checkpointing: str) -> LlamaForCausalLM:
    torch.manual_seed(0)
    made = LlamaForCausalLM(LlamaConfig(**MODEL, tie_word_embeddings=True)).train()
    forward.prepare_scoring(made)
    if gradient_checkpointing == "always":
        made.gradient_checkpointing_enable({"use_reentrant": False})
    return made


def kept_bytes(policy: LlamaForCausalLM, batch: dict[str, torch.Tensor]) -> int:
    """Return the bytes that autograd keeps between a forward pass and its backward pass."""
    own = {parameter.untyped_storage().data_ptr() for parameter in policy.parameters()}
    kept: dict[int, torch.Tensor] = {}  # keeps the tensors, so that no address is reused

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in own:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward.score(policy, batch)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("bound", [{}, {"micro_batch_rows": GROUP}, {"micro_batch_rows": 2}])
def test_memory_kept_by_a_pass_matches_the_estimate(bound):
    plan = parse_config({**PLAN, "optimizer": bound})
    sizes = Sizes(0, read_model_shape(MODEL), 128)
    estimated = estimate_memory(plan, sizes, on_gpu=False).named("activations", "trainer")
    some = rows()[: rows_per_pass(plan, sizes, on_gpu=False)]
    assert kept_bytes(model("never"), collate(some, 0)) == pytest.approx(estimated, rel=0.1)


def test_gradient_checkpointing_keeps_little_more_than_layer_inputs():
    batch = collate(rows(), 0)
    tokens = GROUPS * (PROMPT + GROUP * ANSWER)
    inputs = 4 * MODEL["num_hidden_layers"] * MODEL["hidden_size"] * tokens
    assert inputs <= kept_bytes(model("always"), batch) < 1.5 * inputs
    assert kept_bytes(model("never"), batch) > 10 * inputs


def gradient(policy: LlamaForCausalLM, size: int) -> torch.Tensor:
    """Return the gradient of a weighted sum of all rows' logprobs, `size` rows at a time."""
    policy.zero_grad()
    every = rows()
    for at in range(0, len(every), size):
        batch = collate(every[at : at + size], 0)
        policy_logprobs, entropy = forward.score(policy, batch)
        loss = batch["advantages"][:, None] * policy_logprobs + 0.1 * entropy
        (loss.sum() / 1000).backward()
    return torch.cat([parameter.grad.flatten() for parameter in policy.parameters()])


@pytest.mark.parametrize(
    ("size", "gradient_checkpointing"), [(GROUP, "never"), (12, "always"), (GROUP, "always")]
)
def test_smaller_passes_and_gradient_checkpointing_change_no_gradient(size, gradient_checkpointing):
    whole = gradient(model("never"), GROUPS * GROUP)
    assert whole.norm() > 0
    other = gradient(model(gradient_checkpointing), size)
    assert float((other - whole).norm() / whole.norm()) < 1e-6
