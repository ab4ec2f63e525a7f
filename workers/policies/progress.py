"""What a long command is at, as lines on standard error; nothing where it is quick."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 2.0

Advance = Callable[[int], None]


@contextmanager
def stage(name: str, total: int = 0) -> Iterator[Advance]:
    """Print every two seconds that `name` goes on, and how long it took if a line was printed.

    Yields a function that is told how much more is done, of `total`; without a total, lines have
    seconds alone.
    """
    done = 0
    began = time.monotonic()
    ended = threading.Event()

    def advance(more: int) -> None:
        nonlocal done
        done += more

    def tell() -> None:
        while not ended.wait(EVERY_S):
            share = f"{min(100, 100 * done // total)} %, " if total else ""
            _print(f"{name}: {share}{time.monotonic() - began:.0f} s")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield advance
    finally:
        ended.set()
        teller.join()
    seconds = time.monotonic() - began
    if seconds >= EVERY_S:
        _print(f"{name}: done, {seconds:.1f} s")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
