"""The mean of two sets of weights is a new sealed policy."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from apps.policies.manifest import DamagedWeights, verify_folder
from workers.policies.averaging import NotAlike, average_weights
from workers.policies.tiny import build_tiny


@pytest.fixture
def two(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        build_tiny(tmp_path / name, seed=seed)
    return tmp_path / "a", tmp_path / "b"


def test_every_tensor_is_the_mean_of_both(two, tmp_path):
    manifest = average_weights(*two, tmp_path / "mean")
    assert (manifest.version, manifest.parent) == (0, None)
    assert verify_folder(tmp_path / "mean") == manifest
    first, second, mean = (
        load_file(folder / "model.safetensors") for folder in (*two, tmp_path / "mean")
    )
    assert mean.keys() == first.keys()
    for name, tensor in mean.items():
        assert torch.equal(
            tensor, (first[name].double() / 2 + second[name].double() / 2).float()
        ), name


def test_share_of_one_gives_the_first_weights(two, tmp_path):
    assert (
        average_weights(*two, tmp_path / "mean", 1.0).fingerprint
        == verify_folder(two[0]).fingerprint
    )


def test_mean_of_halves_does_not_depend_on_the_order(two, tmp_path):
    prints = {
        average_weights(*pair, tmp_path / str(n)).fingerprint
        for n, pair in enumerate((two, two[::-1]))
    }
    assert len(prints) == 1


def test_mean_has_its_own_probe(two, tmp_path):
    probe = average_weights(*two, tmp_path / "mean").probe
    assert probe.token_ids == verify_folder(two[0]).probe.token_ids
    assert probe.logprobs != verify_folder(two[0]).probe.logprobs


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_share_outside_zero_to_one_is_refused(two, tmp_path, share):
    with pytest.raises(NotAlike, match="from 0 to 1"):
        average_weights(*two, tmp_path / "mean", share)


def test_weights_of_another_architecture_are_refused(two, tmp_path):
    build_tiny(tmp_path / "wide", hidden=64)
    with pytest.raises(NotAlike, match="different architectures"):
        average_weights(two[0], tmp_path / "wide", tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_policy_with_another_tokenizer_is_refused(two, tmp_path):
    build_tiny(tmp_path / "words", name="tone")
    with pytest.raises(NotAlike):
        average_weights(two[0], tmp_path / "words", tmp_path / "mean")


def test_damaged_folder_is_refused(two, tmp_path):
    shutil.copytree(two[1], tmp_path / "broken")
    with (tmp_path / "broken" / "model.safetensors").open("r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"\x01")
    with pytest.raises(DamagedWeights):
        average_weights(two[0], tmp_path / "broken", tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
