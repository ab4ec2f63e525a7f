"""Leases kept alive beside long work."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from django.conf import settings
from django.db import DatabaseError, connection


@contextlib.contextmanager
def kept(keep: Callable[[], object], every: float | None = None) -> Iterator[None]:
    """Meanwhile `keep` extends the leases, every so many seconds: judges and programs may take longer than one lasts."""
    every = every or settings.LEASE_SECONDS / 3
    done = threading.Event()

    def keep_on() -> None:
        while not done.wait(every):
            with contextlib.suppress(DatabaseError):  # the next turn tries again; a lease that is lost refuses what is written
                keep()
        connection.close()

    keeper = threading.Thread(target=keep_on, name="keep leases", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
