"""What a worker says of itself when it registers: the device it computes on, and its libraries by version."""

import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from apps.runs.footprint import gpu


def described(libraries: Iterable[str]) -> dict[str, Any]:
    """`device` and `details` of a Worker. A library that is not installed is left out; none is imported for it."""
    return {"device": _device()[:100], "details": dict(_versions(libraries))}


def _device() -> str:
    """The first GPU's name, "cuda" where it cannot be read yet, "cpu" where torch finds none. Does not begin to use the GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "cpu"
    return gpu().get("gpu", "cuda")


def _versions(libraries: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in libraries:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
