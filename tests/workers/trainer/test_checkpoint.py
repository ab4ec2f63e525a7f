"""Checkpoints: resuming is exact, damaged ones are never used, and reading one needs no pickle."""

import json
import os

import pytest
import torch
from transformers.trainer_pt_utils import safe_globals

from tests.workers.trainer.batches import digest, rows
from workers.trainer import checkpoint
from workers.trainer.checkpoint import DamagedCheckpoint, newest_intact


def train(host, steps, save_after=()):
    for step in steps:
        host.update(rows(step), save=step in save_after)
    return host


@pytest.mark.parametrize("micro", [None, 5, 3])
def test_resumed_training_equals_uninterrupted_training_exactly(spec, started, tmp_path, micro):
    straight = train(
        started(spec(micro_batch_rows=micro, output=tmp_path / "straight")), range(1, 9)
    )
    plan = spec(micro_batch_rows=micro)
    train(started(plan), range(1, 4), save_after={3})
    resumed = started(plan, checkpoint.checkpoint_folder(plan.output, 3))
    assert resumed.step == 3
    train(resumed, range(4, 9))
    assert digest(resumed) == digest(straight)


def test_saving_a_checkpoint_does_not_change_later_updates(spec, started, tmp_path):
    straight = train(started(spec(output=tmp_path / "straight")), range(1, 5))
    saving = train(started(spec()), range(1, 5), save_after={1, 2, 3})
    assert digest(saving) == digest(straight)


def test_resuming_after_a_skipped_update_is_exact(spec, started, tmp_path):
    def run(host, steps):
        for step in steps:
            host.update(rows(step), skip="recorded" if step == 2 else "", save=step == 3)
        return digest(host)

    straight = run(started(spec(output=tmp_path / "straight")), range(1, 6))
    plan = spec()
    run(started(plan), range(1, 4))
    assert run(started(plan, checkpoint.checkpoint_folder(plan.output, 3)), range(4, 6)) == straight


def test_checkpoint_keeps_the_scale_of_a_float16_loss(spec, started):
    plan = spec()
    host = train(started(plan), [1])
    host.rest()
    host.built.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    host.save()

    sealed = checkpoint.checkpoint_folder(plan.output, 1)
    checkpoint.verify_checkpoint(sealed)
    assert torch.load(sealed / checkpoint.SCALER, weights_only=True)["scale"] == 8.0


def test_last_two_checkpoints_are_kept(spec, started):
    plan = spec()
    train(started(plan), range(1, 5), save_after={1, 2, 3, 4})
    assert [folder.name for folder in checkpoint.sealed(plan.output)] == [
        "step-00000004",
        "step-00000003",
    ]


def test_every_state_file_loads_without_running_pickled_code(spec, started):
    plan = spec()
    train(started(plan), [1], save_after={1})
    folder = checkpoint.checkpoint_folder(plan.output, 1)
    with safe_globals():
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            torch.load(folder / name, weights_only=True)
    assert not (folder / "training_args.bin").exists()


def test_saving_the_same_step_again_keeps_the_sealed_checkpoint(spec, started):
    plan = spec()
    train(started(plan), [1], save_after={1})
    sealed_at = (
        (checkpoint.checkpoint_folder(plan.output, 1) / checkpoint.MANIFEST).stat().st_mtime_ns
    )
    train(started(plan), [1], save_after={1})
    assert (
        checkpoint.checkpoint_folder(plan.output, 1) / checkpoint.MANIFEST
    ).stat().st_mtime_ns == sealed_at
    assert [path.name for path in plan.output.iterdir() if path.name.startswith("step-")] == [
        "step-00000001"
    ]


@pytest.fixture
def two(spec, started):
    """Return a run's folder with checkpoints of steps 1 and 2."""
    plan = spec()
    train(started(plan), [1, 2], save_after={1, 2})
    return plan.output


def cut(path):
    os.truncate(path, path.stat().st_size - 7)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path):
    path.unlink()


def empty_list(path):
    path.write_text("[]")


def another_step(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": 7}))


def nothing_listed(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"files": {}}))


FILES = ("model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json")
DAMAGE = [(file, harm) for file in FILES for harm in (cut, flip, remove)]
DAMAGE += [
    (checkpoint.MANIFEST, harm) for harm in (cut, remove, empty_list, another_step, nothing_listed)
]


@pytest.mark.parametrize("file, harm", DAMAGE)
def test_damaged_checkpoint_is_skipped_for_the_previous_one(two, file, harm):
    harm(two / "step-00000002" / file)
    found, damage = newest_intact(two, max_step=2)
    assert found.name == "step-00000001"
    assert file in damage[0]


def test_error_names_the_damaged_files_when_no_checkpoint_is_intact(two):
    flip(two / "step-00000001" / "optimizer.pt")
    cut(two / "step-00000002" / "model.safetensors")
    with pytest.raises(
        DamagedCheckpoint,
        match=r"step-00000002/model.safetensors has .*step-00000001/optimizer.pt does not match",
    ):
        newest_intact(two, max_step=2)


def test_checkpoint_of_an_uncommitted_update_is_not_used(two):
    found, damage = newest_intact(two, max_step=1)
    assert (found.name, damage) == ("step-00000001", [])


def test_incomplete_checkpoints_are_ignored(two):
    (two / "writing-abc" / "checkpoint-3").mkdir(parents=True)
    assert newest_intact(two, max_step=9)[0].name == "step-00000002"


def test_no_checkpoint_is_found_in_an_empty_folder(tmp_path):
    assert newest_intact(tmp_path, max_step=5) == (None, [])
