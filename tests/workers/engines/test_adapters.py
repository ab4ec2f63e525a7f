"""Every engine serves low-rank adapters as the trainer computes them, and switches to them with
requests in flight.
"""

import json
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM

from apps.policies.manifest import DamagedWeights, read_manifest
from tests.workers.engines.talking import ask, gaps, nightly_with_vllm
from workers import adapters
from workers.engines.interface import Sampling
from workers.trainer import lora
from workers.trainer.spec import Lora

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.fixture(scope="session")
def adapted(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create adapters for `old` at every layer, large enough to change logprobs; they include parts
    that engines store as one.
    """
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(old),
        lora.build_lora_config(Lora(rank=4, alpha=8, target_modules=TARGETS)),
    )
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 0.3, generator=generator)
    final = tmp_path_factory.mktemp("versions") / "v000001"
    lora.publish_adapters(model, old, final, 1, 0)
    return final


def test_adapters_change_the_probe_logprobs(adapted, old):
    said = read_manifest(adapted).probe.logprobs
    before = read_manifest(old).probe.logprobs
    assert max(abs(a - b) for a, b in zip(said, before, strict=True)) > 0.1


@nightly_with_vllm
def test_adapters_are_served_as_the_trainer_computes_them(engines, old, adapted, tolerance):
    engines.serving(old)
    engine, version = engines.serving(adapted)
    replies = ask(engine, [(5, 6, 7)] * 20, Sampling(max_tokens=12))
    with adapters.merge_whole_weights(adapted) as merged:
        assert tolerance.holds(gaps(merged, replies))
    assert {found for reply in replies for found in reply.versions} == {version}
    assert engine.fingerprint() == read_manifest(adapted).fingerprint


@nightly_with_vllm
def test_an_engine_can_start_with_adapters(fresh, adapted):
    engine = fresh()
    manifest = read_manifest(adapted)
    assert engine.start(adapted, 1, manifest.probe).fingerprint == manifest.fingerprint


@nightly_with_vllm
def test_full_weights_are_served_again_after_adapters(engines, old, adapted, tolerance):
    engines.serving(adapted)
    engine, _ = engines.serving(old)
    assert tolerance.holds(gaps(old, ask(engine, [(5, 6, 7)] * 20, Sampling(max_tokens=12))))


@nightly_with_vllm
def test_adapters_of_another_base_are_refused_and_the_old_weights_stay_in_use(
    engines, old, new, adapted, tolerance, tmp_path
):
    harmed = tmp_path / "v000002"
    harmed.mkdir()
    for path in adapted.iterdir():
        (harmed / path.name).write_bytes(path.read_bytes())
    config = json.loads((harmed / "adapter_config.json").read_text())
    (harmed / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": str(new)})
    )
    engine, _ = engines.serving(old)
    with pytest.raises(DamagedWeights, match="the base must be"):
        engine.load(harmed, 99, read_manifest(harmed).probe)
    assert tolerance.holds(gaps(old, ask(engine, [(5, 6, 7)] * 20, Sampling(max_tokens=12))))
