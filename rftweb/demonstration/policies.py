"""Build the demo's policies in separate processes: torch is never imported in this one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

from django.conf import settings

from apps.policies.folder import MANIFEST
from rftweb.demonstration.furnishing import MODELS, origin_file

LOG = "policies.log"


class NotBuilt(RuntimeError):
    """A policy could not be built; its process has printed the error."""


class Builders:
    """Processes that build the missing policies of these runs in parallel."""

    def __init__(self, runs: tuple[str, ...], niceness: int) -> None:
        self.runs = runs
        self.processes: dict[str, subprocess.Popen] = {}
        self.answers: dict[str, str] = {}
        for run in runs:
            policy = MODELS.get(run, run)
            if policy not in self.processes and not _is_there(policy):
                make = _add if run in MODELS else _build
                self.processes[policy] = make(policy, niceness)

    def have_ended(self) -> bool:
        return all(process.poll() is not None for process in self.processes.values())

    def folders(self) -> dict[str, Path]:
        """Wait for the sealed folders, and return them by run. Raises NotBuilt."""
        for policy, process in self.processes.items():
            if policy not in self.answers:
                self.answers[policy] = process.communicate()[0]
        failed = [policy for policy, process in self.processes.items() if process.returncode]
        if failed:
            raise NotBuilt(f"building failed: {', '.join(failed)}")
        return {run: self._folder(run) for run in self.runs}

    def _folder(self, run: str) -> Path:
        if run not in MODELS:
            return Path(json.loads(self.answers[run].splitlines()[-1])["folder"])
        folder = _model_folder(MODELS[run])
        if origin := self.answers.get(MODELS[run]):
            origin_file(folder).write_text(origin)
        return folder

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()  # no-op for those that have ended
            process.wait()


@contextmanager
def building(runs: tuple[str, ...], niceness: int = 0) -> Iterator[Builders]:
    """Build the missing policies of these runs while the block runs.

    Progress goes to our standard error. Unfinished builders are killed at the end. If nobody waits
    for the policies, their `niceness` is increased, and progress goes to the file LOG instead.
    """
    builders = Builders(runs, niceness)
    try:
        yield builders
    finally:
        builders.end()


def _model_folder(name: str) -> Path:
    return settings.WEIGHTS_ROOT / "policies" / f"model-{name}"


def _is_there(policy: str) -> bool:
    """Tell whether a language model was added before; builders check this themselves."""
    folder = _model_folder(policy)
    return (folder / MANIFEST).exists() and origin_file(folder).exists()


def _build(name: str, niceness: int) -> subprocess.Popen:
    """Start a builder on one thread: equal builds must be equal bit by bit."""
    out = settings.WEIGHTS_ROOT / "policies"
    return _worker({"OMP_NUM_THREADS": "1"}, niceness, "build", name, "--out", str(out))


def _add(name: str, niceness: int) -> subprocess.Popen:
    """Start to download a language model by its name, and to seal it."""
    cache = settings.VAR / "models"
    # A folder without its origin is left over from an interrupted start; nothing refers to it.
    shutil.rmtree(_model_folder(name), ignore_errors=True)
    places = ("--cache", str(cache), "--out", str(_model_folder(name)))
    return _worker({}, niceness, "adopt", name, *places)


def _worker(
    environment: dict[str, str], niceness: int, module: str, *arguments: str
) -> subprocess.Popen:
    with _progress(niceness) as progress:
        process = subprocess.Popen(
            [sys.executable, "-m", f"workers.policies.{module}", *arguments],
            cwd=settings.BASE_DIR,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
        )
    os.setpriority(os.PRIO_PROCESS, process.pid, os.nice(0) + niceness)
    return process


def _progress(niceness: int) -> AbstractContextManager[IO[str] | None]:
    if not niceness:
        return nullcontext()
    folder = settings.VAR / "log"
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / LOG).open("a")
