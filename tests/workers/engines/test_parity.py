"""When a probe holds."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from workers.engines import live_policy
from workers.engines.interface import ParityError
from workers.engines.live_policy import LivePolicy
from workers.engines.parity import LIMITS, require_parity
from workers.policies.tiny import build_tiny

# How much larger the weights of a policy are made, so that bfloat16 rounds its logprobs as much as
# those of SmolLM2-135M-Instruct (0.05 nats).
LOUDER = 60.0
TOKENS = tuple(3 + place * 7 % 8 for place in range(32))


def test_the_gap_is_the_mean_absolute_difference():
    assert require_parity([-1.0, -2.0], [-1.02, -1.98], "float32") == pytest.approx(0.02)


@pytest.mark.parametrize("precision", LIMITS)
def test_a_gap_above_the_limit_is_refused(precision):
    with pytest.raises(ParityError) as refusal:
        require_parity([-1.0, -2.0], [-1.4, -1.6], precision)
    assert refusal.value.gap == pytest.approx(0.4)
    assert f"{LIMITS[precision]} is allowed in {precision}" in str(refusal.value)


@pytest.mark.parametrize("measured", [[], [-1.0], [math.nan, -1.0], [-math.inf, -1.0]])
def test_a_probe_that_says_nothing_is_refused(measured):
    with pytest.raises(ParityError):
        require_parity(measured, [-1.0, -1.0], "bfloat16")


@pytest.fixture(scope="module")
def loud(tmp_path_factory) -> Path:
    """A policy whose logprobs change by more than 0.05 nats when it is rounded to bfloat16."""
    folder = tmp_path_factory.mktemp("loud") / "policy"
    build_tiny(folder, "sort")
    return _changed(folder, lambda name, tensor: tensor * LOUDER if tensor.dim() > 1 else tensor)


def _changed(folder: Path, change) -> Path:
    other = folder.parent / f"{folder.name}-changed"
    shutil.copytree(folder, other)
    weights = other / "model.safetensors"
    tensors = {name: change(name, tensor) for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    return other


def _logprobs(folder: Path, precision: torch.dtype) -> list[float]:
    module = live_policy._load(folder, precision)
    return LivePolicy(module, 0, "", context=len(TOKENS)).probe_logprobs(TOKENS)


def test_a_policy_that_bfloat16_rounds_much_is_served_in_bfloat16(loud):
    gap = require_parity(
        _logprobs(loud, torch.bfloat16), _logprobs(loud, torch.float32), "bfloat16"
    )
    assert gap > LIMITS["float32"]


def test_one_exchanged_layer_is_refused_in_bfloat16(loud):
    def exchange(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.flip(0) if name == "model.layers.0.mlp.down_proj.weight" else tensor

    wrong = _changed(loud, exchange)
    with pytest.raises(ParityError):
        require_parity(_logprobs(wrong, torch.bfloat16), _logprobs(loud, torch.float32), "bfloat16")
