"""Renewal of leases during long work."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from django.conf import settings
from django.db import DatabaseError, connection


@contextlib.contextmanager
def renewed(renew: Callable[[], object], every: float | None = None) -> Iterator[None]:
    """Call `renew` at this interval within the block, to extend leases.

    Judges and programs may take longer than a lease lasts.
    """
    every = every or settings.LEASE_SECONDS / 3
    ended = threading.Event()

    def renew_on() -> None:
        while not ended.wait(every):
            # The next round tries again; a lost lease makes later writes fail.
            with contextlib.suppress(DatabaseError):
                renew()
        connection.close()

    thread = threading.Thread(target=renew_on, name="renew leases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
