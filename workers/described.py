"""What a worker says of itself when it registers: the device it computes on, and its libraries by version."""

import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def described(libraries: Iterable[str]) -> dict[str, Any]:
    """`device` and `details` of a Worker. A library that is not installed is left out; none is imported for it."""
    return {"device": _device()[:100], "details": dict(_versions(libraries))}


def _device() -> str:
    """The first GPU's name where this process has loaded torch, and torch finds one."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else "cpu"


def _versions(libraries: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in libraries:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
