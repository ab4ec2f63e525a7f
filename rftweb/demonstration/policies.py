"""Building the demo's policies, in processes of their own: torch never enters this one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings


class NotBuilt(RuntimeError):
    """A policy could not be built; what went wrong stands above, as the builder said it."""


@contextmanager
def building(names: tuple[str, ...]) -> Iterator[Callable[[], dict[str, Path]]]:
    """Build these policies side by side where they are not there yet; what is unfinished at the end is killed.

    Yields a function that waits for the sealed folders (raises NotBuilt). Progress goes to our standard error.
    One thread each: equal builds must be equal to the bit.
    """
    builders = {name: _start(name) for name in names}
    try:
        yield lambda: _folders(builders)
    finally:
        for builder in builders.values():
            builder.kill()  # no-op for those that have ended
            builder.wait()


def _folders(builders: dict[str, subprocess.Popen]) -> dict[str, Path]:
    answers = {name: builder.communicate()[0] for name, builder in builders.items()}
    failed = [name for name, builder in builders.items() if builder.returncode]
    if failed:
        raise NotBuilt(f"building failed: {', '.join(failed)}")
    return {name: Path(json.loads(answer.splitlines()[-1])["folder"]) for name, answer in answers.items()}


def _start(name: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "workers.policies.build", name, "--out", str(settings.WEIGHTS_ROOT / "policies")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE, text=True)
