"""One process at a time may fill a GPU that is shared in turns, and a dead one holds it no
longer.
"""

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
    """A machine with two GPUs, as far as this module asks."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_turns, "_list_uuids", lambda: LISTED)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_turn_is_all_of_its_gpus_or_none(tmp_path):
    both = GpuTurn(["GPU-aa", "GPU-bb"], tmp_path)
    second = GpuTurn(["GPU-bb"], tmp_path)
    first = GpuTurn(["GPU-aa"], tmp_path)
    assert second.take() and not both.take()
    assert first.take(), "what could not be taken whole is not held in part"
    first.give_back()
    second.give_back()
    assert both.take() and both.take()
    assert not first.take()


def test_a_wait_ends_when_nobody_wants_the_gpu_any_more(tmp_path):
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
        ("5", [gpu_turns.EVERY_GPU]),  # nobody knows it here: it may be any
    ],
)
def test_a_gpu_has_one_name_whatever_it_was_chosen_by(gpus, monkeypatch, chosen, names):
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpu_turns.visible_gpus() == names


def test_gpus_that_cannot_be_listed_are_taken_for_one(gpus, monkeypatch):
    monkeypatch.setattr(gpu_turns, "_list_uuids", dict)
    assert gpu_turns.visible_gpus() == [gpu_turns.EVERY_GPU]


def test_only_a_run_that_shares_a_gpu_in_turns_takes_any(gpus, settings, tmp_path):
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
def test_without_a_gpu_nobody_takes_turns():
    assert gpu_turns.turn_for(plan(2)) is None
