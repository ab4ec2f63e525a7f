"""Observe guest processes of the sandbox from outside."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descent import descendants

GUEST_MARK = b"--disable-userns"  # guests started alone in bubblewrap
FORKED_NAME = "guest\n"  # guests forked by a server
LOOK_S = 0.02


class Guests:
    """Guest processes of this process, by id; other processes may have guests at the same time.

    The parent of a guest is known only while the parent lives, so a thread looks all the time.
    """

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.over = threading.Event()

    def watch(self) -> None:
        while not self.over.wait(LOOK_S):
            self.seen.update(pid for pid in descendants(os.getpid()) if _is_guest(pid))

    def alive(self) -> list[int]:
        return sorted(pid for pid in self.seen if _is_guest(pid))


@pytest.fixture
def guests() -> Iterator[Guests]:
    """Watch the guest processes that descend from this process during the test."""
    guests = Guests()
    watching = threading.Thread(target=guests.watch)
    watching.start()
    yield guests
    guests.over.set()
    watching.join()


def _is_guest(pid: int) -> bool:
    try:
        is_forked = Path(f"/proc/{pid}/comm").read_text() == FORKED_NAME
        return is_forked or GUEST_MARK in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended in the meantime
        return False
