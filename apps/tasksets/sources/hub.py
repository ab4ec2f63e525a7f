"""Data sets of the Hugging Face Hub, loaded by a child process that prints JSON lines."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings

from apps.accounts.confining import why_it_ended

# As the Hub names them; what begins with a dot or a slash would be a folder of this machine's, with
# a dash an option.
NAME = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?\Z")


@dataclass(frozen=True)
class HubRows:
    """Rows of a hub data set, printed by a child process as `lines`."""

    process: subprocess.Popen[bytes]
    complaints: IO[bytes]

    @property
    def lines(self) -> IO[bytes]:
        assert self.process.stdout is not None  # a pipe
        return self.process.stdout

    def require_end(self) -> None:
        """Raise ValueError with the process's last message if it failed before the end."""
        if status := self.process.wait():
            self.complaints.seek(0)
            lines = self.complaints.read().decode(errors="replace").strip().splitlines()
            raise ValueError(
                why_it_ended(
                    status,
                    lines[-1] if lines else "the download ended before the dataset was complete",
                )
            )


@contextmanager
def hub_rows(name: str, config: str, split: str, folder: Path | None = None) -> Iterator[HubRows]:
    """Start a process that reads a hub data set, and kill it when the block ends.

    `datasets` also takes a folder by its name: one of `folder`, by default ours.
    """
    command = [
        sys.executable,
        "-m",
        "workers.hub_rows",
        name,
        f"--config={config}",
        f"--split={split}",
    ]
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command,
            cwd=folder or settings.BASE_DIR,
            env={**environment, "PYTHONPATH": str(settings.BASE_DIR)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
        ) as process,
    ):
        try:
            yield HubRows(process, complaints)
        finally:
            process.kill()
