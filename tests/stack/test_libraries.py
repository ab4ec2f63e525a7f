"""Which process of a stack loads torch and CUDA."""

from pathlib import Path

import pytest

from rftweb.supervisor.roles import GPU_ROLES
from tests.descent import children
from tests.stack.conftest import PATIENCE_S

pytestmark = [pytest.mark.stack, pytest.mark.slow]


def has_mapped(pid: int, library: str) -> bool:
    """Return whether the process has loaded a library whose name begins with `library`."""
    try:
        return f"/{library}" in Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return False


def test_torch_and_cuda_are_loaded_only_in_the_pool_child_after_the_fork(installation, eventually):
    for role in GPU_ROLES:
        parent = installation.stack.pid(role)
        eventually(lambda: any(has_mapped(pid, "libtorch") for pid in children(parent)), PATIENCE_S)  # noqa: B023
        assert not any(has_mapped(parent, library) for library in ("libtorch", "libcuda"))
