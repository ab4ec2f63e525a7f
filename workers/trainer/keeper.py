"""Keeps leases alive while updates run: an update may last longer than a lease, the process may not."""

import threading

import structlog
from django.conf import settings
from django.db import DatabaseError, connections

from apps.runs.models import Run, Worker

log = structlog.get_logger(__name__)
BEATS_PER_LEASE = 4


class Keeper:
    """One thread with its own database connection; a lease it could not extend in time is lost for good."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.doing, self.for_runs = "", {}
        self.held: dict[int, tuple[Run, int]] = {}
        self.lost: set[int] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, run: Run, fence: int) -> None:
        self.lost.discard(run.pk)
        self.held[run.pk] = (run, fence)
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="lease keeper", daemon=True)
            self._thread.start()

    def let_go(self, run: Run) -> None:
        self.held.pop(run.pk, None)
        self.lost.discard(run.pk)

    def say(self, for_runs: dict[int, tuple[str, str]], idle: str) -> None:
        """What it does from now on, by run: its slug, and words. Writes only what has changed."""
        before = self.doing, self.for_runs
        self.for_runs = {run: words for run, (_, words) in for_runs.items()}
        self.doing = "; ".join(f"{slug}: {words}" for slug, words in for_runs.values()) or idle
        if before != (self.doing, self.for_runs):
            self.worker.beat(self.doing, self.for_runs)

    def beat(self) -> None:
        """Extend every lease on the database's clock; those taken over or lapsed are `lost`."""
        for run_id, (run, fence) in list(self.held.items()):
            if not run.keep_trainer(fence, settings.LEASE_SECONDS):
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
                self.beat()
            except DatabaseError as error:  # away: whether the lease outlived it is seen at the next beat
                log.warning("database_away", station="train", error=str(error).strip())
            finally:
                connections.close_all()
