"""Parity check: an engine is compared with logprobs computed from weights rounded the same way."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from apps.policies.manifest import Manifest, Probe, read_manifest, seal_folder
from workers import weights
from workers.engines import live_policy
from workers.engines.interface import ParityError
from workers.engines.live_policy import LivePolicy
from workers.engines.parity import LIMITS, UNROUNDED_LIMITS, Parity, require_parity
from workers.engines.transformers_loop import TransformersEngine
from workers.policies.tiny import build_tiny
from workers.trainer import lora
from workers.trainer.spec import Lora

# Factor for the weights of the policy, so that rounding to bfloat16 changes its logprobs as much as
# those of SmolLM2-135M-Instruct (0.05 nats).
LOUDER = 60.0
TOKENS = tuple(3 + place * 7 % 8 for place in range(32))
TWO = Probe((1, 2, 3), (-1.0, -2.0))


def test_the_gap_is_the_mean_absolute_difference():
    found = require_parity([-1.0, -2.0], replace(TWO, logprobs=(-1.02, -1.98)), "float32")
    assert found.trainer == pytest.approx(0.02)
    assert found.alike is None


@pytest.mark.parametrize("precision", UNROUNDED_LIMITS)
def test_a_gap_above_the_limit_is_refused(precision):
    with pytest.raises(ParityError) as refusal:
        require_parity([-1.0, -2.0], replace(TWO, logprobs=(-1.4, -1.6)), precision)
    assert refusal.value.gap == pytest.approx(0.4)
    assert f"{UNROUNDED_LIMITS[precision]} is allowed in {precision}" in str(refusal.value)


@pytest.mark.parametrize("measured", [[], [-1.0], [math.nan, -1.0], [-math.inf, -1.0]])
def test_probe_with_unusable_logprobs_is_refused(measured):
    for served in ({}, {"bfloat16": (-1.0, -1.0)}):
        with pytest.raises(ParityError):
            require_parity(measured, replace(TWO, served=served), "bfloat16")


@pytest.mark.parametrize("precision", LIMITS)
def test_served_gap_decides_and_the_trainers_gap_is_only_reported(precision):
    probe = replace(TWO, served={precision: (-3.0, -4.0)})
    found = require_parity([-3.0, -4.0 - LIMITS[precision]], probe, precision)
    half = LIMITS[precision] / 2
    assert found == Parity(pytest.approx(2 + half), pytest.approx(half))
    with pytest.raises(ParityError) as refusal:
        require_parity([-1.0, -2.0], probe, precision)
    assert f"{LIMITS[precision]} is allowed in {precision}" in str(refusal.value)


def test_manifest_stores_served_logprobs_and_older_manifests_stay_readable(tmp_path):
    build_tiny(tmp_path / "base")
    document = json.loads((tmp_path / "base" / "manifest.json").read_text())
    assert "served" not in document["probe"]
    old = Manifest.from_document(document)
    assert old.probe.served == {}
    probe = replace(old.probe, served={"bfloat16": old.probe.logprobs})
    again = Manifest.from_document(json.loads(replace(old, probe=probe).to_json()))
    assert again.probe == probe


@pytest.mark.parametrize("served", [(-1.0,), (-1.0, math.nan)])
def test_probe_with_invalid_served_logprobs_is_not_sealed(tmp_path, served):
    build_tiny(tmp_path / "base")
    with pytest.raises(ValueError, match=r"bfloat16|finite"):
        seal_folder(
            tmp_path / "base", tmp_path / "v1", 0, None, replace(TWO, served={"bfloat16": served})
        )


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Create a policy whose logprobs change by more than 0.05 nats when rounded to bfloat16."""
    folder = tmp_path_factory.mktemp("loud") / "policy"
    build_tiny(folder, "sort")
    loud = _changed(folder, lambda name, tensor: tensor * LOUDER if tensor.dim() > 1 else tensor)
    (loud / "manifest.json").unlink()
    seal_folder(loud, loud.with_name("base"), 0, None, Probe(TOKENS, (-1.0,) * (len(TOKENS) - 1)))
    return loud.with_name("base")


def _changed(folder: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Path:
    other = folder.parent / f"{folder.name}-changed"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(folder, other)
    file = other / "model.safetensors"
    tensors = {name: change(name, tensor) for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    return other


def _model(base: Path) -> PreTrainedModel:
    """Return a model as a trainer has it: float32, with weights that differ from the base."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    return model


def _start(folder: Path, precision: str, probe: Probe):
    engine = TransformersEngine(temperature=1.0, seed=0, precision=precision)
    try:
        return engine.start(folder, 1, probe)
    finally:
        engine.stop()


@pytest.mark.parametrize("precision", LIMITS)
def test_engine_matches_the_publisher_when_weights_are_rounded_the_same_way(
    base, tmp_path, precision
):
    model = _model(base)
    before = [parameter.clone() for parameter in model.parameters()]
    manifest = weights.publish_weights(model, base, tmp_path / "v1", 1, 0, (precision,))
    report = _start(tmp_path / "v1", precision, manifest.probe)
    assert report.served_gap < 1e-6
    assert (report.probe_gap > 0.02) == (precision == "bfloat16")
    assert all(map(torch.equal, before, model.parameters()))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_weights_that_are_stored_in_bfloat16_are_rounded_to_it_first(base, tmp_path):
    stored = _changed(base, lambda name, tensor: tensor.bfloat16())
    (stored / "manifest.json").unlink()
    seal_folder(stored, tmp_path / "base", 0, None, read_manifest(base).probe)
    manifest = weights.publish_weights(
        _model(base), tmp_path / "base", tmp_path / "v1", 1, 0, ("float32",)
    )
    report = _start(tmp_path / "v1", "float32", manifest.probe)
    assert report.served_gap < 1e-4 < 0.02 < report.probe_gap


def test_adapters_are_added_before_rounding(base, tmp_path):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = get_peft_model(model, lora.build_lora_config(Lora(4, 8.0, ("q_proj", "down_proj"))))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.3)
    manifest = lora.publish_adapters(model, base, tmp_path / "v1", 1, 0, ("bfloat16",))
    report = _start(tmp_path / "v1", "bfloat16", manifest.probe)
    assert report.served_gap < 1e-6 < report.probe_gap


def _flipped(part: str) -> Callable[[str, torch.Tensor], torch.Tensor]:
    return lambda name, tensor: tensor.flip(0) if part in name else tensor


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("part", ["layers.0.mlp.down_proj", "layers.0.self_attn.v_proj", "embed"])
def test_wrong_weights_are_refused_in_every_precision(base, tmp_path, part, precision):
    manifest = weights.publish_weights(_model(base), base, tmp_path / "v1", 1, 0, (precision,))
    wrong = _changed(tmp_path / "v1", _flipped(part))
    with pytest.raises(ParityError):
        _start(wrong, precision, manifest.probe)


def test_previous_version_is_refused_in_float32(base, tmp_path):
    """This simulates an update that never reached the engine."""
    manifest = weights.publish_weights(_model(base), base, tmp_path / "v1", 1, 0, ("float32",))
    with pytest.raises(ParityError):
        _start(base, "float32", manifest.probe)


def test_manifest_without_served_logprobs_is_checked_against_the_trainers_logprobs(base, tmp_path):
    manifest = weights.publish_weights(_model(base), base, tmp_path / "v1", 1, 0)
    report = _start(tmp_path / "v1", "bfloat16", manifest.probe)
    assert report.served_gap is None
    assert 0.02 < report.probe_gap < UNROUNDED_LIMITS["bfloat16"]
    wrong = _changed(tmp_path / "v1", _flipped("layers.0.mlp.down_proj"))
    with pytest.raises(ParityError):
        _start(wrong, "bfloat16", manifest.probe)


def test_rotary_frequencies_are_not_rounded(base):
    policy = LivePolicy.read(base, 0, torch.device("cpu"), "bfloat16")
    assert policy.module.dtype == torch.bfloat16
    plain = live_policy._load(base, torch.float32)
    rounded = policy.module.base_model.rotary_emb.inv_freq
    assert torch.equal(rounded, plain.base_model.rotary_emb.inv_freq)
