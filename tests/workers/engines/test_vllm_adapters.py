"""Versions of a LoRA run that vLLM serves as adapters on a base that stays in memory."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM

from apps.policies.manifest import read_manifest
from tests.workers.engines.talking import Talk, Tolerance, ask, gaps
from workers import adapters
from workers.engines.interface import Engine, EngineDied, ParityError, Sampling
from workers.engines.vllm_options import VllmOptions
from workers.trainer import lora
from workers.trainer.spec import Lora

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
RANK = 4
TOLERANCE = Tolerance(0.02, 0.2)
PROMPTS = [(5, 6, 7)] * 20
SHORT = Sampling(max_tokens=12)


def adapted(base: Path, final: Path, seed: int, rank: int = RANK) -> Path:
    """Publish adapters for every layer of `base`, large enough to change logprobs."""
    plan = Lora(rank=rank, alpha=8, target_modules=TARGETS)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora.build_lora_config(plan))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 0.3, generator=generator)
    lora.publish_adapters(model, base, final, 1, 0, ("float32",))
    return final


@pytest.fixture(scope="module")
def first(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adapted(old, tmp_path_factory.mktemp("versions") / "v000001", seed=3)


@pytest.fixture(scope="module")
def second(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adapted(old, tmp_path_factory.mktemp("versions") / "v000002", seed=4)


@pytest.fixture(scope="module")
def engine(first: Path) -> Iterator[Engine]:
    from workers.engines.vllm import VllmEngine

    options = VllmOptions(adapter_rank=RANK, sleep_level=1)
    engine = VllmEngine(1.0, seed=0, options=options)
    engine.start(first, 1, read_manifest(first).probe)
    yield engine
    engine.stop()


@pytest.fixture
def serving(engine: Engine, first: Path) -> Engine:
    engine.load(first, 1, read_manifest(first).probe)
    return engine


@pytest.fixture
def said() -> Callable[[Engine, Path], bool]:
    def is_said_by(engine: Engine, version: Path) -> bool:
        with adapters.merge_whole_weights(version) as merged:
            return TOLERANCE.holds(gaps(merged, ask(engine, PROMPTS, SHORT)))

    return is_said_by


@pytest.fixture
def loads(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the calls to the processes that hold the weights, while a test runs."""
    asked: list[str] = []
    call = engine._llm.collective_rpc

    async def listened(method: str, *args: object, **kwargs: object) -> object:
        asked.append(method)
        return await call(method, *args, **kwargs)

    monkeypatch.setattr(engine._llm, "collective_rpc", listened)
    return asked


def adapters_in(engine: Engine) -> int:
    return len(engine._call(lambda: engine._llm.list_loras()))


def test_adapter_is_served_on_its_base_as_the_trainer_computes_it(serving, first, said):
    assert said(serving, first)


def test_next_adapter_takes_over_mid_reply_without_reloading_the_base(
    serving, first, second, loads
):
    talk = Talk(serving, PROMPTS, Sampling(max_tokens=100))
    talk.until(talk.begun)
    report = serving.load(second, 2, read_manifest(second).probe)
    replies = talk.finish()
    assert {version for reply in replies for version in reply.versions} == {1, 2}
    for number, folder in ((1, first), (2, second)):
        with adapters.merge_whole_weights(folder) as merged:
            assert TOLERANCE.holds(gaps(merged, replies, version=number))
    assert (report.fingerprint, loads, adapters_in(serving)) == (serving.fingerprint(), [], 1)
    assert report.served_gap < 0.01


def test_unreadable_adapter_leaves_the_old_one_in_use(serving, first, second, said, tmp_path):
    broken = tmp_path / "v000003"
    shutil.copytree(second, broken)
    weights = broken / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(Exception) as refusal:
        serving.load(broken, 3, read_manifest(second).probe)
    assert not isinstance(refusal.value, EngineDied)
    assert said(serving, first)


def test_adapter_that_fails_its_probe_leaves_the_old_one_in_use(
    serving, first, second, said, loads
):
    with pytest.raises(ParityError):
        serving.load(second, 2, read_manifest(first).probe)
    assert said(serving, first)
    assert (loads, adapters_in(serving)) == ([], 1)


def test_adapter_with_a_rank_above_the_configured_one_is_refused(
    serving, old, first, said, tmp_path
):
    large = adapted(old, tmp_path / "v000004", seed=5, rank=16)
    with pytest.raises(Exception, match="rank"):
        serving.load(large, 4, read_manifest(large).probe)
    assert said(serving, first)


def test_full_weights_and_then_an_adapter_can_be_loaded(serving, old, new, first, said):
    serving.load(new, 5, read_manifest(new).probe)
    assert TOLERANCE.holds(gaps(new, ask(serving, PROMPTS, SHORT)))
    serving.load(first, 6, read_manifest(first).probe)
    assert said(serving, first)


def test_adapter_is_served_again_after_sleep(serving, first, second, said):
    serving.sleep()
    serving.wake()
    assert said(serving, first)
    serving.sleep()
    serving.load(second, 2, read_manifest(second).probe)
    assert said(serving, second)
