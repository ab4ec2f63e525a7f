"""What the tests of the sandbox look at from outside."""

from collections.abc import Callable
from pathlib import Path

import pytest

GUEST_MARK = b"--disable-userns"


@pytest.fixture
def guests() -> Callable[[], list[int]]:
    """The guests that are alive and were not when the test began: processes of bubblewrap's, by their number."""

    def alive() -> set[int]:
        return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _is_guest(path)}

    before = alive()
    return lambda: sorted(alive() - before)


def _is_guest(process: Path) -> bool:
    try:
        return GUEST_MARK in (process / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return False
