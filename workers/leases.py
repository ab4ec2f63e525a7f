"""Renewal of leases during long work."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import structlog
from django.conf import settings
from django.db import connections

log = structlog.get_logger(__name__)


@contextlib.contextmanager
def renewed(renew: Callable[[], object], every: float | None = None) -> Iterator[None]:
    """Call `renew` at this interval within the block, to extend leases.

    Judges and programs may take longer than a lease lasts.
    """
    every = every or settings.LEASE_SECONDS / 3
    ended = threading.Event()

    def renew_on() -> None:
        while not ended.wait(every):
            try:
                renew()
            # The next round tries again, with another connection; a lost lease makes later writes
            # fail.
            except Exception as error:
                log.warning("lease_not_renewed", error=str(error).strip())
                connections.close_all()
        connections.close_all()

    thread = threading.Thread(target=renew_on, name="renew leases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
