"""Leases kept alive beside long work."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from django.conf import settings
from django.db import DatabaseError, connection


@contextlib.contextmanager
def kept(keep: Callable[[], object]) -> Iterator[None]:
    """Meanwhile `keep` extends the leases: judges and programs may take longer than one lasts."""
    done = threading.Event()

    def keep_on() -> None:
        while not done.wait(settings.LEASE_SECONDS / 3):
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
