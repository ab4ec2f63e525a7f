"""Renew leases in a separate thread, since a step may take longer than a lease."""

import threading
import time

import structlog
from django.conf import settings
from django.db import DatabaseError, connections

from apps.runs.models import Run, Worker

log = structlog.get_logger(__name__)
BEATS_PER_LEASE = 4
SAID_SECONDS = 1.0


class LeaseRenewer:
    """Thread that renews leases over its own database connection.

    `lost`: ids of the runs whose lease could not be renewed in time.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.doing = ""
        self.for_runs: dict[int, str] = {}
        self.said_at = 0.0
        self.held: dict[int, tuple[Run, int]] = {}
        self.lost: set[int] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, run: Run, fence: int) -> None:
        self.lost.discard(run.pk)
        self.held[run.pk] = (run, fence)
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="lease renewal", daemon=True)
            self._thread.start()

    def remove(self, run: Run) -> None:
        self.held.pop(run.pk, None)
        self.lost.discard(run.pk)

    def report(self, for_runs: dict[int, tuple[str, str]], idle: str) -> None:
        """Publish what the trainer does, by run id (slug and text), if that has changed.

        It is published at most once in SAID_SECONDS, or with the next renewal.
        """
        before = self.doing, self.for_runs
        self.for_runs = {run: words for run, (_, words) in for_runs.items()}
        self.doing = "; ".join(f"{slug}: {words}" for slug, words in for_runs.values()) or idle
        is_said = before == (self.doing, self.for_runs)
        if not is_said and time.monotonic() - self.said_at > SAID_SECONDS:
            self.worker.beat(self.doing, self.for_runs)
            self.said_at = time.monotonic()

    def renew(self) -> None:
        """Renew every lease by the database's clock; those taken over or expired become `lost`."""
        for run_id, (run, fence) in list(self.held.items()):
            if not run.renew_trainer(fence, settings.LEASE_SECONDS):
                log.warning("trainer_lease_lost", run=run, fence=fence)
                self.lost.add(run_id)
        self.worker.beat(self.doing, self.for_runs)

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _live(self) -> None:
        while not self._ended.wait(settings.LEASE_SECONDS / BEATS_PER_LEASE):
            try:
                self.renew()
            except (
                DatabaseError
            ) as error:  # database away: the next renewal shows whether the lease is still held
                log.warning("database_unavailable", queue="train", error=str(error).strip())
            finally:
                connections.close_all()
