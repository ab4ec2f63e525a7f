"""Destination and progress of a push to a model hub.

This module does not import huggingface_hub, which may be missing where orders are processed.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path

READINGS = 2  # of each file: once for its checksum, once to be sent


class NotPushed(RuntimeError):
    """Raised when the Hub refused; the message begins with the field to change."""


@dataclass(frozen=True)
class Destination:
    """Repository to push to, and its access token. `endpoint`: another Hub than huggingface.co.

    An empty `endpoint` means huggingface.co.
    """

    repository: str
    token: str
    is_private: bool = True
    endpoint: str = ""

    def __repr__(self) -> str:
        return f"Destination({self.repository})"


class Progress:
    """Progress of an upload, estimated from the bytes that were read.

    Some files may be at the destination already, others are sent twice.
    """

    def __init__(self, total: int) -> None:
        self.total = max(1, READINGS * total)
        self.read = 0

    def add(self, size: int) -> None:
        """Count bytes that were read."""
        self.read += size

    @property
    def share(self) -> float:
        """Return the share that is done, from 0 to 1."""
        return min(1.0, self.read / self.total)


def push_folder(folder: Path, to: Destination, message: str, progress: Progress) -> str:
    """Commit the folder's files to the repository; returns its address. Raises NotPushed."""
    try:
        hub = importlib.import_module("workers.exporting.hub")
    except ModuleNotFoundError as error:
        raise NotPushed(
            f"{error.name} is not installed; a push needs the dependencies of workers"
        ) from None
    address: str = hub.push_to_hub(folder, to, message, progress)
    return address
