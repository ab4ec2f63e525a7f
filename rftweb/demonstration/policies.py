"""Build the demo's policies in separate processes: torch is never imported in this one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from apps.policies.folder import MANIFEST
from rftweb.demonstration.furnishing import MODELS, origin_file


class NotBuilt(RuntimeError):
    """A policy could not be built; its process has printed the error."""


@contextmanager
def building(runs: tuple[str, ...]) -> Iterator[Callable[[], dict[str, Path]]]:
    """Build the missing policies of these runs in parallel.

    Yields a function that waits for the sealed folders, by run; it raises NotBuilt. Progress goes
    to our standard error. Unfinished builders are killed at the end.
    """
    processes = {}
    for run in runs:
        policy = MODELS.get(run, run)
        if policy not in processes and not _is_there(policy):
            processes[policy] = _add(policy) if run in MODELS else _build(policy)
    try:
        yield lambda: _folders(runs, processes)
    finally:
        for process in processes.values():
            process.kill()  # no-op for those that have ended
            process.wait()


def _folders(runs: tuple[str, ...], processes: dict[str, subprocess.Popen]) -> dict[str, Path]:
    answers = {policy: process.communicate()[0] for policy, process in processes.items()}
    failed = [policy for policy, process in processes.items() if process.returncode]
    if failed:
        raise NotBuilt(f"building failed: {', '.join(failed)}")
    folders = {}
    for run in runs:
        if run not in MODELS:
            folders[run] = Path(json.loads(answers[run].splitlines()[-1])["folder"])
            continue
        folders[run] = _model_folder(MODELS[run])
        if origin := answers.get(MODELS[run]):
            origin_file(folders[run]).write_text(origin)
    return folders


def _model_folder(name: str) -> Path:
    return settings.WEIGHTS_ROOT / "policies" / f"model-{name}"


def _is_there(policy: str) -> bool:
    """Tell whether a language model was added before; builders check this themselves."""
    folder = _model_folder(policy)
    return (folder / MANIFEST).exists() and origin_file(folder).exists()


def _build(name: str) -> subprocess.Popen:
    """Start a builder on one thread: equal builds must be equal bit by bit."""
    out = settings.WEIGHTS_ROOT / "policies"
    return _worker({"OMP_NUM_THREADS": "1"}, "build", name, "--out", str(out))


def _add(name: str) -> subprocess.Popen:
    """Start to download a language model by its name, and to seal it."""
    cache = settings.VAR / "models"
    # A folder without its origin is left over from an interrupted start; nothing refers to it.
    shutil.rmtree(_model_folder(name), ignore_errors=True)
    return _worker({}, "adopt", name, "--cache", str(cache), "--out", str(_model_folder(name)))


def _worker(environment: dict[str, str], module: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", f"workers.policies.{module}", *arguments],
        cwd=settings.BASE_DIR,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
