"""How far weights moved from their parent: a metric of each published version, by groups of
layers.
"""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.workers.trainer.batches import rows
from tests.workers.trainer.feeding import train_to_the_end
from workers import weight_movement as measuring
from workers.trainer.spec import Lora
from workers.weight_movement import bands, layer_group, movement


@pytest.fixture
def trained(spec, started, tmp_path) -> Path:
    host = started(spec(learning_rate=1e-2))
    host.update(rows(1))
    host.publish(tmp_path / "v1", 1, 0)
    return tmp_path / "v1"


def test_movement_is_the_norm_of_the_change_over_the_norm_of_the_parent(trained, base):
    old = load_file(base / "model.safetensors")
    new = load_file(trained / "model.safetensors")
    moved = sum(
        float((new[name].float() - old[name].float()).double().square().sum()) for name in old
    )
    size = sum(float(old[name].float().double().square().sum()) for name in old)
    found = movement(trained, base)
    assert found["whole"] == pytest.approx(math.sqrt(moved / size))
    assert found["sampled"] is False
    assert [group for group, _ in found["groups"]] == ["embedding", "layer 0", "last norm"]
    assert all(value > 0 for _, value in found["groups"])


def test_movement_of_unchanged_weights_is_zero(base):
    assert movement(base, base)["whole"] == 0.0


def test_adapter_moves_only_the_layers_it_changes(spec, started, base, tmp_path):
    host = started(spec(lora=Lora(rank=4, alpha=8, target_modules=("q_proj",)), learning_rate=1e-2))
    host.update(rows(1))
    host.publish(tmp_path / "v1", 1, 0)
    groups = dict(movement(tmp_path / "v1", base)["groups"])
    assert groups["embedding"] == 0.0
    assert groups["layer 0"] > 0.0


def test_movement_of_a_large_tensor_is_estimated_from_bands(tmp_path, base, monkeypatch):
    rows_of = torch.linspace(0, 1, 4096)[:, None].expand(4096, 4).contiguous()
    for name, factor in (("old", 1.0), ("new", 1.1)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "manifest.json").write_bytes((base / "manifest.json").read_bytes())
        save_file({"model.layers.3.mlp.weight": rows_of * factor}, folder / "model.safetensors")
    monkeypatch.setattr(measuring, "MAX_NUMBERS", 1024)
    found = movement(tmp_path / "new", tmp_path / "old")
    assert found["sampled"] is True
    assert found["groups"] == [["layer 3", pytest.approx(0.1, rel=1e-3)]]


def test_bands_cover_the_first_and_the_last_row(monkeypatch):
    monkeypatch.setattr(measuring, "MAX_NUMBERS", 800)
    found = bands((1000, 10))
    assert (found[0], found[-1]) == ((0, 10), (990, 1000))
    assert len(found) == 8
    assert bands((80, 10)) == [(0, 80)]


def test_weights_are_grouped_by_layer():
    names = {
        "model.embed_tokens.weight": "embedding",
        "model.layers.12.mlp.up_proj.weight": "layer 12",
        "lm_head.weight": "head",
        "transformer.h.0.attn.weight": "layer 0",
        "model.norm.weight": "last norm",
        "model.vision_tower.encoder.layers.2.mlp.weight": "vision layer 2",
        "score.bias": "other",
    }
    assert {name: layer_group(name) for name in names} == names


def test_each_trained_version_records_its_movement(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(steps=2))
    told = {one.version: one.movement for one in run.weight_versions.order_by("version")}
    assert told[0] is None
    assert told[1]["whole"] > 0
    assert [group for group, _ in told[2]["groups"]] == ["embedding", "layer 0", "last norm"]


def test_missing_parent_folder_only_omits_the_movement(tiny_run, new_loop, tmp_path):
    run = tiny_run(steps=2)
    loop = new_loop()
    run.weight_versions.filter(version=0).update(folder=str(tmp_path / "gone"))
    run = train_to_the_end(loop, run)
    assert (
        list(run.weight_versions.order_by("version").values_list("state", flat=True))
        == ["published"] * 3
    )
    assert run.weight_versions.get(version=1).movement is None
