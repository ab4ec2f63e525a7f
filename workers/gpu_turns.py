"""Turns on a GPU that an engine and a trainer share (`vllm.sleep_level`).

A turn is an exclusive lock on one file for each GPU, so the kernel ends it with its process,
however that ends. The files lie under RFTWEB_VAR, which an explorer and a trainer of one machine
share. CUDA is not used to name the GPUs: an explorer that did would hold half a gigabyte of each
itself.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from django.conf import settings

from apps.runs.config import RunConfig

ENGINE_IS_THERE = "the GPU, which is still in use by an engine"
TRAINER_IS_THERE = "waiting for the GPU, which the trainer is using"
LOOK_SECONDS = 0.05
EVERY_GPU = "every"  # where nobody can tell them apart


class GpuTurn:
    """The right to fill these GPUs. Not thread-safe."""

    def __init__(self, devices: list[str], folder: Path) -> None:
        self._paths = [folder / f"{device}.lock" for device in sorted(devices)]
        self._files: list[int] = []

    @property
    def is_held(self) -> bool:
        return bool(self._files)

    def take(self) -> bool:
        """Take all of them, or none; return whether they are held now."""
        if self._files:
            return True
        for path in self._paths:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.give_back()
                return False
        return True

    def wait(self, is_unwanted: Callable[[], bool]) -> bool:
        """Take them as soon as they are free; False where `is_unwanted` before that."""
        while not self.take():
            if is_unwanted():
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def give_back(self) -> None:
        """Release the turn; it may be called without holding any."""
        for file in self._files:
            os.close(file)
        self._files = []


def turn_for(plan: RunConfig) -> GpuTurn | None:
    """Return the turn at this process's GPUs; None where the run shares no GPU in turns."""
    return turn_at_visible_gpus() if plan.vllm.sleep_level else None


def turn_at_visible_gpus() -> GpuTurn | None:
    """Return the turn at this process's GPUs; None where it sees none."""
    devices = visible_gpus()
    return GpuTurn(devices, settings.VAR / "run" / "gpu") if devices else None


@contextmanager
def hold_gpu(plan: RunConfig) -> Iterator[bool]:
    """Hold the GPU for a trainer's work; False where an engine has it.

    What torch keeps of the GPU's memory for later is given back first, or the engine could not
    wake.
    """
    turn = turn_for(plan)
    if turn is None:
        yield True
        return
    is_ours = turn.take()
    try:
        yield is_ours
    finally:
        if is_ours:
            free_cached_memory()
            turn.give_back()


def free_cached_memory() -> None:
    """Free the GPU memory that torch has cached and does not use."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def visible_gpus() -> list[str]:
    """Return names of the GPUs that this process may use, the same in every process of the
    machine.
    """
    if not torch.cuda.is_available():
        return []
    listed = _list_uuids()
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return list(listed.values()) or [EVERY_GPU]
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    uuids = [_name_of(device, listed) for device in names]
    return [name for name in uuids if name] if all(uuids) else [EVERY_GPU]


@cache
def _list_uuids() -> dict[str, str]:
    """Return UUIDs by index; empty if they cannot be listed."""
    query = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        process = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (
        [line.split(",") for line in process.stdout.splitlines()] if process.returncode == 0 else []
    )
    return {line[0].strip(): line[1].strip() for line in lines if len(line) == 2}


def _name_of(chosen: str, listed: dict[str, str]) -> str:
    """Return the UUID of a GPU by its index or the beginning of its UUID; "" for an unknown one."""
    if chosen.isdigit():
        return listed.get(chosen, "")
    if chosen.startswith("MIG-"):
        return chosen
    return next((uuid for uuid in listed.values() if uuid.startswith(chosen)), "")
