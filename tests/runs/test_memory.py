"""Memory use of a run: the parts add up, follow the handbook's formula, and fit the card that a
preset is made for.
"""

import re
from dataclasses import replace

import pytest
from django.conf import settings
from transformers import AutoModelForCausalLM, Qwen2Config

from apps.policies.shape import Shape, read_model_shape
from apps.runs.config import RunConfig
from apps.runs.memory import (
    CARD_BYTES,
    COLUMNS_AT_ONCE,
    CUDA_BYTES,
    LOGITS_AT_ONCE,
    PASS_BYTES,
    Memory,
    Sizes,
    cache_needed,
    estimate_memory,
    rows_per_pass,
)
from apps.runs.parsing import from_yaml, parse_config
from bench.gpu.shapes import CONTEXT, PARAMETERS, preset_config

HANDBOOK = (settings.BASE_DIR / "docs" / "deploy.md").read_text(encoding="utf-8")
GB = 1e9
TINY = Sizes(1_000, Shape(2, 8, 32, 8, 4, 100), 64)
PLAN = {
    "policy": "p",
    "taskset": "t",
    "steps": 1,
    "group_size": 4,
    "groups_per_step": 2,
    "rewards": [{"scorer": "sort"}],
    "sampling": {"max_prompt_tokens": 6, "max_tokens": 10},
    "algorithm": {"name": "grpo", "kl": "none"},
}


def preset(name: str) -> RunConfig:
    path = settings.BASE_DIR / "examples" / f"{name}.yaml"
    return from_yaml(path.read_text(encoding="utf-8"))


def sizes(name: str) -> Sizes:
    return Sizes(PARAMETERS[name], read_model_shape(preset_config(name)), CONTEXT)


def tiny(**said: object) -> Memory:
    return estimate_memory(parse_config({**PLAN, **said}), TINY, on_gpu=False)


@pytest.mark.parametrize("name", PARAMETERS)
def test_preset_states_the_parameter_count_of_its_model(name):
    import torch

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(Qwen2Config(**preset_config(name)))
    assert model.num_parameters() == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_memory_parts_of_a_preset_add_up_and_fit_the_card(name):
    memory = estimate_memory(preset(name), sizes(name), on_gpu=True)
    both = memory.held_by("trainer") + memory.held_by("engine")
    assert both == sum(part.bytes for part in memory.parts)
    assert max(memory.sampling, memory.updating) <= 0.9 * CARD_BYTES  # leave room for fragmentation
    assert memory.named("KV cache", "engine") >= cache_needed(
        preset(name), sizes(name), on_gpu=True
    )
    share = preset(name).vllm.gpu_memory_utilization
    assert memory.held_by("engine") == pytest.approx(share * CARD_BYTES, abs=2)


@pytest.mark.parametrize("name", PARAMETERS)
def test_handbook_contains_the_memory_table_of_each_preset(name):
    memory = estimate_memory(preset(name), sizes(name), on_gpu=True)
    rows = [line.strip("| ").split(" | ") for line in HANDBOOK.splitlines() if line.startswith("|")]
    column = next(row for row in rows if f"`{name}`" in row).index(f"`{name}`")
    told = {row[0]: row[column] for row in rows if len(row) > column and row[0].startswith("GB ")}
    for part in memory.parts:
        assert told[f"GB {part.holder}: {part.name}"] == f"{part.bytes / GB:.1f}", part
    assert told["GB together while sampling"] == f"{memory.sampling / GB:.1f}"
    assert told["GB together in a step"] == f"{memory.updating / GB:.1f}"
    needed = cache_needed(preset(name), sizes(name), on_gpu=True)
    assert told["GB of KV cache that a step's rollouts need"] == f"{needed / GB:.1f}"
    assert re.search(rf"examples/{re.escape(name)}\.yaml", HANDBOOK)


def test_trainer_holds_sixteen_bytes_for_each_trained_weight():
    memory = tiny()
    held = ("master weights", "Adam", "gradients")
    assert sum(memory.named(name, "trainer") for name in held) == 16 * TINY.parameters
    rounded = tiny(precision={"trainer": "bfloat16"})
    assert rounded.named("weights", "trainer") == 2 * TINY.parameters


def test_adapters_are_trained_on_top_of_frozen_weights():
    memory = tiny(lora={"rank": 2, "target_modules": ["q_proj", "k_proj", "down_proj"]})
    adapters = 2 * 2 * ((8 + 8) + (8 + 4) + (32 + 8))
    assert memory.named("master weights", "trainer") == 4 * (TINY.parameters + adapters)
    assert (
        memory.named("Adam", "trainer") == 2 * memory.named("gradients", "trainer") == 8 * adapters
    )


@pytest.mark.parametrize(("said", "numbers"), [({}, 1_000), ({"lora": {}}, 0)])
def test_reference_model_is_a_copy_except_with_adapters(said, numbers):
    memory = tiny(**said, algorithm={"name": "grpo"})
    assert memory.named("reference", "trainer") == 4 * numbers


SMOLLM2 = Sizes(134_515_008, Shape(30, 576, 1536, 576, 192, 49152), 8192)
ANSWERS = {"group_size": 8, "groups_per_step": 4, "sampling": {"max_tokens": 64}}


def test_pass_size_is_chosen_to_fit_the_memory_by_default():
    long = parse_config(
        {**PLAN, "sampling": {"max_tokens": 1024}, "group_size": 8, "groups_per_step": 16}
    )
    on_cpu = estimate_memory(long, SMOLLM2, on_gpu=False)
    assert rows_per_pass(long, SMOLLM2, on_gpu=False) == 1  # a row of up to 2,048 tokens
    assert on_cpu.named("activations", "trainer") == 4 * 30 * (12 * 576 + 4 * 1536) * 2048
    on_gpu = estimate_memory(long, SMOLLM2, on_gpu=True)
    assert PASS_BYTES["gpu"] / 4 < on_gpu.named("activations", "trainer") <= PASS_BYTES["gpu"]
    assert rows_per_pass(parse_config(PLAN), SMOLLM2, on_gpu=False) == 8  # all rows of the step


def test_passes_hold_whole_groups_if_one_fits():
    plan = parse_config({**PLAN, **ANSWERS})
    assert rows_per_pass(plan, SMOLLM2, on_gpu=False) == 8  # though ten rows would fit
    memory = estimate_memory(plan, SMOLLM2, on_gpu=False)
    assert PASS_BYTES["cpu"] / 2 < memory.named("activations", "trainer") <= PASS_BYTES["cpu"]
    short = parse_config({**PLAN, **ANSWERS, "sampling": {"max_tokens": 8}})
    assert rows_per_pass(short, SMOLLM2, on_gpu=False) == 32
    large = parse_config({**PLAN, **ANSWERS, "group_size": 32, "groups_per_step": 1})
    assert 2 <= rows_per_pass(large, SMOLLM2, on_gpu=False) < 32


def test_gradient_checkpointing_leaves_room_for_larger_passes():
    again = {"gradient_checkpointing": "always"}
    plan = parse_config({**PLAN, **ANSWERS, "optimizer": again})
    assert rows_per_pass(plan, SMOLLM2, on_gpu=False) == 32
    kept = estimate_memory(parse_config({**PLAN, **ANSWERS}), SMOLLM2, on_gpu=False)
    less = estimate_memory(plan, SMOLLM2, on_gpu=False)
    assert less.named("activations", "trainer") < kept.named("activations", "trainer") / 2
    never = parse_config({**PLAN, **ANSWERS, "optimizer": {"gradient_checkpointing": "never"}})
    at_once = estimate_memory(never, SMOLLM2, on_gpu=True).named("activations", "trainer")
    usual = estimate_memory(parse_config({**PLAN, **ANSWERS}), SMOLLM2, on_gpu=True)
    assert at_once > 5 * usual.named("activations", "trainer")


@pytest.mark.parametrize(
    ("bounds", "rows"),
    [
        ({"micro_batch_tokens": 16}, 1),
        ({"micro_batch_tokens": 15}, 1),  # at least one row
        ({"micro_batch_tokens": 79}, 4),
        ({"micro_batch_tokens": 79, "micro_batch_rows": 3}, 3),
        ({"micro_batch_tokens": 10_000}, 8),
        ({"micro_batch_rows": 100}, 8),
    ],
)
def test_rows_and_tokens_both_limit_a_pass(bounds, rows):
    assert rows_per_pass(parse_config({**PLAN, "optimizer": bounds}), TINY, on_gpu=False) == rows


def test_memory_of_a_pass_follows_from_its_rows_and_tokens():
    whole = tiny()
    halves = tiny(optimizer={"micro_batch_rows": 4})
    distinct = 2 * (6 + 4 * 10)  # tokens of two groups of four answers
    kept = 4 * 2 * ((8 * 8 + 4 * 32) * distinct + 4 * 8 * 8 * 16)
    assert whole.named("activations", "trainer") == kept
    assert whole.named("activations", "trainer") == 2 * halves.named("activations", "trainer")
    assert whole.named("logits", "trainer") == 2 * 4 * 8 * 10 * 100
    assert whole.named("KV cache", "engine") == 4 * 8 * 16 * 2 * 8


def test_sleeping_engine_frees_everything_but_its_context_for_a_step():
    asleep = parse_config({**PLAN, "max_staleness": 0, "vllm": {"sleep_level": 1}})
    awake = parse_config({**PLAN, "vllm": {"gpu_memory_utilization": 0.3}})
    parts = {
        part.name: part
        for part in estimate_memory(asleep, TINY, True).parts
        if part.holder == "engine"
    }
    assert {name for name, part in parts.items() if part.updating} == {"CUDA"}
    shared = estimate_memory(awake, TINY, on_gpu=True)
    assert shared.updating - shared.held_by("trainer") == pytest.approx(0.3 * CARD_BYTES, abs=2)


def test_without_layer_sizes_the_parts_that_depend_on_them_are_missing():
    memory = estimate_memory(parse_config(PLAN), replace(TINY, shape=None), on_gpu=True)
    assert not memory.is_whole
    assert {part.name for part in memory.parts} == {
        "master weights",
        "weights",
        "Adam",
        "gradients",
        "CUDA",
    }
    assert memory.held_by("engine") == 2 * TINY.parameters + CUDA_BYTES


def test_memory_estimate_uses_the_trainers_limits_for_logits():
    from workers.trainer import forward

    assert (forward.WIDEST, forward.TILE) == (COLUMNS_AT_ONCE, LOGITS_AT_ONCE)
