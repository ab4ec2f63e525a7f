"""Where a folder is pushed to, how far it is, and the way there.

It knows no huggingface_hub: whoever fills orders may run where that is not installed.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path

READINGS = 2  # of each file: once for its checksum, once to be sent


class NotPushed(RuntimeError):
    """The Hub did not take it; the message begins with the field that is to be changed."""


@dataclass(frozen=True)
class Destination:
    """Where to, and by whose right. `endpoint`: another Hub than huggingface.co; empty for that."""

    repository: str
    token: str
    is_private: bool = True
    endpoint: str = ""

    def __repr__(self) -> str:
        return f"Destination({self.repository})"


class Progress:
    """What share of all bytes has gone; some may lie there already, others are sent twice."""

    def __init__(self, total: int) -> None:
        self.total = max(1, READINGS * total)
        self.read = 0

    def add(self, size: int) -> None:
        """Count bytes that were read."""
        self.read += size

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.read / self.total)


def push(folder: Path, to: Destination, message: str, progress: Progress) -> str:
    """Commit the folder's files to the repository; returns its address. Raises NotPushed."""
    try:
        hub = importlib.import_module("workers.exporting.hub")
    except ModuleNotFoundError as error:
        raise NotPushed(
            f"{error.name} is not installed here; a push needs what workers need"
        ) from None
    return hub.push(folder, to, message, progress)
