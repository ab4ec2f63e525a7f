"""How vLLM serves a run: valid settings, and the maximum length of a text."""

import pytest

from apps.runs.changing import changed
from apps.runs.config import ConfigError, RunConfig
from apps.runs.parsing import parse_config

PLAN = {"policy": "p", "taskset": "t", "steps": 1, "rewards": [{"scorer": "sort"}]}
IN_TURN = {"max_staleness": 0}
SHORT = {"max_prompt_tokens": 100, "max_tokens": 50}


def plan(**said: object) -> RunConfig:
    return parse_config({**PLAN, **said})


@pytest.mark.parametrize(
    "said",
    [
        {"vllm": {"sleep_level": 1}, **IN_TURN},
        {"vllm": {"sleep_level": 2, "gpu_memory_utilization": 0.3}, **IN_TURN},
        {"vllm": {"lora": "adapter", "sleep_level": 1}, "lora": {"rank": 512}, **IN_TURN},
        {"vllm": {"tensor_parallel_size": 8, "distributed_executor_backend": "ray"}},
        {"vllm": {"enforce_eager": False}, "engine": "transformers"},
        {"vllm": {"max_model_len": 150}, "sampling": SHORT},
        {"steps": 0, "evaluation": {}, "vllm": {"sleep_level": 1}},
    ],
)
def test_valid_settings_are_accepted(said):
    assert plan(**said)


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        ({"vllm": {"sleep_level": 1}}, "vllm.sleep_level", "set max_staleness to 0"),
        ({"vllm": {"sleep_level": 3}}, "vllm.sleep_level", "less than or equal to 2"),
        (
            {"vllm": {"sleep_level": 2, "lora": "adapter"}, "lora": {}, **IN_TURN},
            "vllm.sleep_level",
            "drops the base",
        ),
        ({"vllm": {"sleep_level": 1}, "serve": {}, **IN_TURN}, "vllm.sleep_level", "may come"),
        ({"vllm": {"gpu_memory_utilization": 1.0}}, "vllm.gpu_memory_utilization", "less than 1"),
        ({"vllm": {"lora": "adapter"}}, "vllm.lora", "trains no adapters"),
        ({"vllm": {"lora": "adapter"}, "lora": {"rank": 513}}, "vllm.lora", "ranks only up to 512"),
        (
            {"vllm": {"max_model_len": 149}, "sampling": SHORT},
            "vllm.max_model_len",
            "150: raise it",
        ),
        ({"vllm": {"max_model_len": 64}}, "vllm.max_model_len", "no room for a prompt"),
        ({"vllm": {"enforce_eager": True}, "engine": "transformers"}, "vllm", "has no effect"),
        ({"vllm": {"tensor_parallel_size": 0}}, "vllm.tensor_parallel_size", "greater than"),
        (
            {"vllm": {"distributed_executor_backend": "slurm"}},
            "vllm.distributed_executor_backend",
            "'auto', 'mp' or 'ray'",
        ),
        ({"vllm": {"tensor_parallel": 2}}, "vllm.tensor_parallel", "`tensor_parallel_size`"),
    ],
)
def test_invalid_settings_are_refused_at_their_field(said, field, words):
    with pytest.raises(ConfigError) as refusal:
        plan(**said)
    assert words in refusal.value.problems[field]


@pytest.mark.parametrize(
    ("said", "context", "room"),
    [
        ({}, 2048, 2048),
        ({"sampling": SHORT}, 2048, 150),
        ({"sampling": SHORT}, 128, 128),  # the limit of the policy's context
        ({"sampling": SHORT}, 0, 150),  # the policy's context is unknown
        ({"sampling": SHORT, "vllm": {"max_model_len": 500}}, 2048, 500),
        ({"sampling": SHORT, "steps": 0, "evaluation": {}}, 2048, 2048),  # an evaluation
    ],
)
def test_room_for_a_text_follows_from_the_runs_limits_and_the_context(said, context, room):
    assert plan(**said).room_in(context) == room


def test_max_tokens_cannot_grow_beyond_what_the_engine_was_started_for():
    begun = plan(sampling=SHORT)
    assert changed(begun, {"sampling": {"max_tokens": 20}}, has_begun=True).room_in(0) == 120
    with pytest.raises(ConfigError, match="must be 50 or less"):
        changed(begun, {"sampling": {"max_tokens": 51}}, has_begun=True)
    assert changed(plan(), {"sampling": {"max_tokens": 1000}}, has_begun=True)


def test_evaluation_is_served_on_the_same_gpus_with_merged_weights():
    chosen = plan(vllm={"lora": "adapter", "tensor_parallel_size": 2, "max_model_len": 99}, lora={})
    served = chosen.vllm.for_evaluation()
    assert (served.lora, served.max_model_len, served.tensor_parallel_size) == ("merge", None, 2)
