"""Only one process at a time may use a GPU that is shared in turns; a dead process releases it."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from workers import gpu_turns
from workers.gpu_turns import GpuTurn

LISTED = {"0": "GPU-aa", "1": "GPU-bb"}


def plan(level: int) -> SimpleNamespace:
    return SimpleNamespace(vllm=SimpleNamespace(sleep_level=level))


@pytest.fixture
def gpus(monkeypatch):
    """Simulate a machine with two GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_turns, "_list_uuids", lambda: LISTED)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_turn_takes_all_of_its_gpus_or_none(tmp_path):
    both = GpuTurn(["GPU-aa", "GPU-bb"], tmp_path)
    second = GpuTurn(["GPU-bb"], tmp_path)
    first = GpuTurn(["GPU-aa"], tmp_path)
    assert second.take() and not both.take()
    assert first.take(), "a refused turn holds none of its GPUs"
    first.give_back()
    second.give_back()
    assert both.take() and both.take()
    assert not first.take()


def test_wait_returns_false_when_the_gpu_is_no_longer_wanted(tmp_path):
    mine = GpuTurn(["GPU-aa"], tmp_path)
    other = GpuTurn(["GPU-aa"], tmp_path)
    mine.take()
    assert not other.wait(lambda: True)
    mine.give_back()
    assert other.wait(lambda: False)


HOLDER = """
import sys, time
from pathlib import Path
import django; django.setup()
from workers.gpu_turns import GpuTurn
turn = GpuTurn(["GPU-aa"], Path(sys.argv[1]))
print(turn.take(), flush=True)
time.sleep(600)
"""


def test_a_killed_process_holds_no_gpu(tmp_path, eventually):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "True\n"
            turn = GpuTurn(["GPU-aa"], tmp_path)
            assert not turn.take()
        finally:
            holder.kill()
    eventually(turn.take, 30)


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (None, ["GPU-aa", "GPU-bb"]),
        ("1", ["GPU-bb"]),
        ("1, 0", ["GPU-bb", "GPU-aa"]),
        ("GPU-b", ["GPU-bb"]),
        ("MIG-7", ["MIG-7"]),
        ("5", [gpu_turns.EVERY_GPU]),  # unknown here: it may be any GPU
    ],
)
def test_gpu_has_one_name_however_it_was_selected(gpus, monkeypatch, chosen, names):
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpu_turns.visible_gpus() == names


def test_unlisted_gpus_count_as_one(gpus, monkeypatch):
    monkeypatch.setattr(gpu_turns, "_list_uuids", dict)
    assert gpu_turns.visible_gpus() == [gpu_turns.EVERY_GPU]


def test_only_runs_that_share_a_gpu_take_turns(gpus, settings, tmp_path):
    settings.VAR = tmp_path
    assert gpu_turns.turn_for(plan(0)) is None
    mine = gpu_turns.turn_for(plan(1))
    assert mine.take()
    with gpu_turns.hold_gpu(plan(1)) as is_ours:
        assert not is_ours
    with gpu_turns.hold_gpu(plan(0)) as is_ours:
        assert is_ours
    mine.give_back()
    with gpu_turns.hold_gpu(plan(2)) as is_ours:
        assert is_ours and not mine.take()
    assert mine.take()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_there_are_no_turns():
    assert gpu_turns.turn_for(plan(2)) is None
