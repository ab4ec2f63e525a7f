"""Published weights keep the base's names, dtypes and tokenizer; probed, finite and sealed."""

from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.policies.manifest import read_manifest, verify_folder
from tests.workers.trainer.batches import digest, rows
from workers import weights
from workers.policies.saving import save_base


@pytest.fixture
def trained(spec, started):
    host = started(spec(learning_rate=1e-2))
    host.update(rows(1))
    return host


def test_published_folder_differs_from_its_base_only_in_the_weights(trained, base, tmp_path):
    manifest = trained.publish(tmp_path / "v1", 1, 0)
    original = read_manifest(base)
    assert verify_folder(tmp_path / "v1", like=original) == manifest
    assert (manifest.version, manifest.parent) == (1, 0)
    assert manifest.fingerprint != original.fingerprint
    assert manifest.files.keys() == original.files.keys()
    assert all(
        manifest.files[name] == original.files[name]
        for name in original.files
        if not name.endswith(".safetensors")
    )


def test_tied_output_head_is_stored_once(trained, tmp_path):
    trained.publish(tmp_path / "v1", 1, 0)
    with safe_open(tmp_path / "v1" / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in set(file.keys())


def test_loaded_weights_equal_the_trained_weights(trained, tmp_path):
    manifest = trained.publish(tmp_path / "v1", 1, 0)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "v1")
    for name, parameter in trained.trainer.model.named_parameters():
        assert torch.equal(parameter, loaded.state_dict()[name]), name
    assert weights.probe_logprobs(loaded, manifest.probe.token_ids) == pytest.approx(
        manifest.probe.logprobs, abs=1e-5
    )
    assert AutoTokenizer.from_pretrained(tmp_path / "v1").chat_template


def test_bfloat16_base_is_published_in_bfloat16(base, tmp_path, spec, started):
    half = tmp_path / "half"
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    save_base(model, AutoTokenizer.from_pretrained(base), half, "3 1 2")
    host = started(replace(spec(), policy=half))
    host.update(rows(1))
    manifest = host.publish(tmp_path / "v1", 1, 0)
    assert {entry.dtype for entry in manifest.tensors.values()} == {"BF16"}
    assert next(host.trainer.model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_weights_are_never_published(trained, tmp_path, value):
    with torch.no_grad():
        trained.trainer.model.model.norm.weight[3] = value
    with pytest.raises(weights.NotFinite, match=r"model\.norm\.weight"):
        trained.publish(tmp_path / "v1", 1, 0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("v1")]


def test_huge_finite_weight_is_accepted(trained):
    with torch.no_grad():
        trained.trainer.model.model.norm.weight.fill_(3e38)
    weights.require_finite(trained.trainer.model)


def test_publishing_does_not_change_later_updates(spec, started, tmp_path):
    quiet = started(spec(output=tmp_path / "a"))
    loud = started(spec(output=tmp_path / "b"))
    for step in (1, 2, 3):
        quiet.update(rows(step))
        loud.update(rows(step))
        loud.publish(tmp_path / f"v{step}", step, step - 1)
    assert digest(quiet) == digest(loud)


def test_publishing_the_same_weights_again_keeps_the_sealed_folder(trained, tmp_path):
    first = trained.publish(tmp_path / "v1", 1, 0)
    assert trained.publish(tmp_path / "v1", 1, 0) == first


def test_a_crash_while_writing_leaves_no_folder_of_that_name(trained, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trained.trainer.model, "save_pretrained", full)
    with pytest.raises(OSError, match="No space"):
        trained.publish(tmp_path / "v1", 1, 0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("v1")]
