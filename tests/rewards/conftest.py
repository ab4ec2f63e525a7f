"""What the tests of the sandbox look at from outside."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descent import descendants

GUEST_MARK = b"--disable-userns"  # of those that are bubblewrap's own
FORKED_NAME = "guest\n"  # of those that a server forks
LOOK_S = 0.02


class Guests:
    """This process's own, by their numbers, as they come and go: another process may have some of
    its own just now.

    Who their parent was is known only while it lives, so they are looked for all the time.
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
    """The processes of guests that descend from this one during the test."""
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
    except OSError:  # it ended meanwhile
        return False
