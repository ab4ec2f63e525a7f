"""Low-rank adapters: only they are trained and published, and engines serve exactly what was
trained.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from apps.policies.manifest import DamagedWeights, read_manifest, verify_folder
from apps.rollouts.models import Chat, ChatTurn
from apps.runs.models import Worker
from tests.workers.trainer.batches import digest, rows
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers import adapters, weights
from workers.engines.interface import Request, Sampling
from workers.engines.live_policy import LivePolicy
from workers.engines.transformers_loop import TransformersEngine
from workers.explorer import chats
from workers.explorer.loop import ExplorerLoop
from workers.policies.averaging import NotAlike, average_weights
from workers.policies.bringing_in import NotAPolicy, adopt_model
from workers.policies.tiny import build_tiny
from workers.trainer import checkpoint
from workers.trainer.run_trainer import RunTrainer
from workers.trainer.spec import Lora

LORA = Lora(rank=4, alpha=8, target_modules=("q_proj", "v_proj", "down_proj"))
CPU = torch.device("cpu")


@pytest.fixture
def trained(spec, started):
    host = started(spec(lora=LORA, learning_rate=1e-2))
    for step in (1, 2, 3):
        host.update(rows(step))
    return host


@pytest.fixture
def published(trained, tmp_path) -> Path:
    trained.publish(tmp_path / "v1", 1, 0)
    return tmp_path / "v1"


def test_only_adapters_are_trained(trained, base):
    before = AutoModelForCausalLM.from_pretrained(base).state_dict()
    moved = set()
    for name, parameter in trained.trainer.model.named_parameters():
        if ".lora_" in name:
            assert parameter.requires_grad
            moved.add(name.split(".lora_")[0].rsplit(".", 1)[1])
        else:
            plain = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
            assert torch.equal(parameter, before[plain]), name
    assert moved == set(LORA.target_modules)


def test_untrained_adapters_give_the_logprobs_of_the_base(spec, started, base, tmp_path):
    manifest = started(spec(lora=LORA)).publish(tmp_path / "v1", 1, 0)
    assert manifest.probe.logprobs == pytest.approx(read_manifest(base).probe.logprobs, abs=1e-5)


def test_published_folder_contains_only_the_adapter_and_names_its_base(published, trained, base):
    manifest = verify_folder(published)
    assert {path.name for path in published.iterdir()} == {
        "adapter_model.safetensors",
        "adapter_config.json",
        "manifest.json",
    }
    assert manifest.base == read_manifest(base).fingerprint
    assert manifest.tensors == trained.layout()
    assert sum(entry.bytes for entry in manifest.files.values()) < sum(
        f.bytes for f in read_manifest(base).files.values()
    )


def test_publishing_the_same_adapters_again_keeps_the_sealed_folder(published, trained):
    assert trained.publish(published, 1, 0) == read_manifest(published)


def test_merged_weights_are_exactly_base_plus_scaled_product(published, base):
    live = LivePolicy.read(published, 1, CPU)
    tensors = load_file(published / "adapter_model.safetensors")
    before = AutoModelForCausalLM.from_pretrained(base).state_dict()
    for name, parameter in live.module.named_parameters():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" in tensors:
            product = tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]
            assert torch.equal(parameter, before[name] + LORA.alpha / LORA.rank * product), name
            assert not torch.equal(parameter, before[name])
        else:
            assert torch.equal(parameter, before[name]), name


def test_engine_logprobs_match_the_trainers(published):
    manifest = read_manifest(published)
    live = LivePolicy.read(published, 1, CPU)
    assert live.probe_logprobs(manifest.probe.token_ids) == pytest.approx(
        manifest.probe.logprobs, abs=1e-5
    )
    assert live.fingerprint == manifest.fingerprint


def test_merged_folder_loads_without_adapter_support(published):
    with adapters.merge_whole_weights(published) as folder:
        whole = AutoModelForCausalLM.from_pretrained(folder)
        assert (folder / "tokenizer.json").exists()
    manifest = read_manifest(published)
    assert weights.probe_logprobs(whole, manifest.probe.token_ids) == pytest.approx(
        manifest.probe.logprobs, abs=1e-5
    )
    assert not folder.exists()


def test_full_weights_are_used_without_a_copy(base):
    with adapters.merge_whole_weights(base) as folder:
        assert folder == base


def test_engine_switches_from_the_base_to_adapters_and_back(published, base):
    engine = TransformersEngine(temperature=1.0, seed=0)
    try:
        engine.start(base, 0, read_manifest(base).probe)
        report = engine.load(published, 1, read_manifest(published).probe)
        assert (report.version, report.fingerprint) == (1, read_manifest(published).fingerprint)
        engine.submit([Request("one", (7, 8, 9), Sampling(max_tokens=4))])
        said = []
        while not said or said[-1].stop_reason is None:
            said += engine.drain(5.0)
        assert {delta.version for delta in said} == {1}
        assert (
            engine.load(base, 0, read_manifest(base).probe).fingerprint
            == read_manifest(base).fingerprint
        )
    finally:
        engine.stop()


def test_resumed_training_equals_uninterrupted_training_exactly(spec, started, tmp_path):
    straight = started(spec(lora=LORA, micro_batch_rows=5, output=tmp_path / "straight"))
    for step in range(1, 7):
        straight.update(rows(step))
    plan = spec(lora=LORA, micro_batch_rows=5)
    stopped = started(plan)
    for step in range(1, 4):
        stopped.update(rows(step), save=step == 3)
    resumed = started(plan, checkpoint.checkpoint_folder(plan.output, 3))
    for step in range(4, 7):
        resumed.update(rows(step))
    assert digest(resumed) == digest(straight)


def test_checkpoint_of_adapters_contains_no_full_weights(spec, started, base):
    plan = spec(lora=LORA)
    started(plan).update(rows(1), save=True)
    folder = checkpoint.checkpoint_folder(plan.output, 1)
    assert (folder / "adapter_model.safetensors").exists()
    assert not (folder / "model.safetensors").exists()


def test_non_finite_adapters_are_never_published(trained, tmp_path):
    parameter = next(p for n, p in trained.trainer.model.named_parameters() if ".lora_B." in n)
    with torch.no_grad():
        parameter[0, 0] = float("nan")
    with pytest.raises(weights.NotFinite, match="lora_B"):
        trained.publish(tmp_path / "v1", 1, 0)
    assert not (tmp_path / "v1").exists()


def test_flipped_bit_in_the_adapter_is_detected(published):
    path = published / "adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedWeights, match="adapter_model"):
        verify_folder(published)


def test_adapter_of_another_base_is_not_served(published, tmp_path):
    build_tiny(tmp_path / "other", seed=5)
    path = published / "adapter_config.json"
    path.write_text(
        json.dumps(
            json.loads(path.read_text()) | {"base_model_name_or_path": str(tmp_path / "other")}
        )
    )
    with pytest.raises(DamagedWeights, match="the base must be"):
        LivePolicy.read(published, 1, CPU)


def test_adapter_for_a_layer_missing_in_the_base_is_not_served(published, base):
    with pytest.raises(DamagedWeights, match="the base does not have it"):
        adapters.merge(torch.nn.Linear(2, 2), published)


def test_published_adapter_can_be_added_as_a_model(published, base, tmp_path):
    manifest = adopt_model(str(published), "main", tmp_path / "adopted")
    assert (manifest.version, manifest.base) == (0, None)
    assert manifest.tensors == read_manifest(base).tensors
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "adopted")
    probe = read_manifest(published).probe
    assert weights.probe_logprobs(whole, probe.token_ids) == pytest.approx(probe.logprobs, abs=1e-5)


def test_adapter_without_a_base_is_refused_as_a_model(published, tmp_path):
    (published / "manifest.json").unlink()
    with pytest.raises(NotAPolicy, match="adapter without a base model"):
        adopt_model(str(published), "main", tmp_path / "adopted")


def test_averaging_adapters_is_refused(published, base, tmp_path):
    with pytest.raises(NotAlike, match="v1 is an adapter"):
        average_weights(base, published, tmp_path / "mean")


@pytest.mark.parametrize(
    "fields", [{"rank": 0}, {"target_modules": ()}, {"target_modules": ("lm_head",)}]
)
def test_meaningless_lora_settings_are_refused(fields):
    with pytest.raises(ValueError, match="lora"):
        Lora(**{"rank": 4, "alpha": 8, "target_modules": ("q_proj",), **fields})


def test_error_names_a_missing_target_layer(spec, started):
    with pytest.raises(ValueError, match="no_such_layer"):
        started(spec(lora=Lora(4, 8, ("no_such_layer",))))


def test_a_run_trains_publishes_and_serves_adapters_from_end_to_end(tiny_run, new_loop):
    lora = {"rank": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    run = train_to_the_end(new_loop(), tiny_run(lora=lora))
    assert (run.state, run.published_version) == ("completed", 6)
    newest = run.weight_versions.get(version=6)
    manifest = verify_folder(Path(newest.folder))
    assert (manifest.fingerprint, manifest.base) == (newest.fingerprint, run.policy.fingerprint)
    engine = TransformersEngine(temperature=1.0, seed=0)
    try:
        report = engine.start(Path(newest.folder), 6, manifest.probe)
        assert (report.fingerprint, report.probe_gap < 1e-4) == (newest.fingerprint, True)
    finally:
        engine.stop()


def test_damaged_adapter_is_written_again_before_it_is_published(tiny_run, new_loop, monkeypatch):
    run = tiny_run(lora={"rank": 4, "alpha": 8, "target_modules": ["q_proj"]})
    loop = new_loop()
    original = RunTrainer._stage
    harmed = []

    def stage_and_harm(trainer, step):
        version = original(trainer, step)
        path = Path(version.folder) / "adapter_model.safetensors"
        path.write_bytes(path.read_bytes()[:-4])
        harmed.append(version.version)
        return version

    with monkeypatch.context() as patch:
        patch.setattr(RunTrainer, "_stage", stage_and_harm)
        feed(run)
        loop.serve()
    run.refresh_from_db()
    assert (harmed, run.published_version) == ([1], 1)
    verify_folder(Path(run.weight_versions.get(version=1).folder))


def test_chat_uses_the_merged_adapter_and_its_bases_tokenizer(
    tiny_run, new_loop, alice, eventually, monkeypatch
):
    monkeypatch.setattr(chats, "ELSEWHERE_SECONDS", 0.0)
    run = train_to_the_end(
        new_loop(), tiny_run(steps=1, lora={"rank": 4, "alpha": 8, "target_modules": ["q_proj"]})
    )
    chat = Chat.objects.create(weight_version=run.weight_versions.get(version=1), by=alice)
    turn = chat.ask([{"role": "user", "content": "31425"}], 1.0, 8)
    explorer = ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=2)
    )
    try:
        eventually(
            lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 300
        )
    finally:
        explorer.stop()
    turn.refresh_from_db()
    assert (turn.state, turn.reason) == ("done", "")
