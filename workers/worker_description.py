"""The description of a worker for its registration: the device, and library versions."""

import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from apps.runs.resource_usage import gpu


def describe_worker(libraries: Iterable[str]) -> dict[str, Any]:
    """Return `device` and `details` of a Worker.

    A library that is not installed is left out; none is imported for it.
    """
    return {"device": _device()[:100], "details": dict(_versions(libraries))}


def _device() -> str:
    """Return the first GPU's name, "cuda" if it cannot be read yet, "cpu" if torch finds none.

    Does not begin to use the GPU.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "cpu"
    return str(gpu().get("gpu", "cuda"))


def _versions(libraries: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in libraries:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
