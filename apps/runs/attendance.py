"""Each process of the installation as a row (Worker): who makes it, what keeps it, what ends it."""

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import Error, close_old_connections, connections

from apps.runs import code_versions, log_keeper
from apps.runs.footprint import Sampler
from apps.runs.models import Worker

log = structlog.get_logger(__name__)
BEAT_SECONDS = 2.0
PRESENCE_SECONDS = 5.0  # of processes that take no orders; a third of a lease if that is shorter
GOODBYE_S = 3.0


def enter(role: str, **described: object) -> Worker:
    """This process's row, made once; its lines bear the row's key from now on."""
    host, pid = socket.gethostname(), os.getpid()
    details = {**code_versions.told(), **described.pop("details", {})}
    worker, _ = Worker.every.get_or_create(
        key=f"{role}@{host}:{pid}:{_started_at(pid)}",
        defaults={"role": role, "host": host, "pid": pid, "details": details, **described},
    )
    log_keeper.call_it(worker.key)
    return worker


def _started_at(pid: int) -> str:
    """The process's start in clock ticks since boot: a recycled pid gets another name."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


@dataclass
class Attendance:
    """A process that takes jobs: between them it beats every BEAT_SECONDS, and hears then what it was told."""

    worker: Worker
    sampler: Sampler = field(default_factory=Sampler)
    at: float = 0.0

    def keep(self) -> None:
        if time.monotonic() - self.at < BEAT_SECONDS:
            return
        self.worker.beat(**self.sampler.sample())
        self.worker.hear()
        self.at = time.monotonic()


class Presence:
    """A process that takes no jobs: a thread of its own beats for it, so that whom it serves never waits for the database.

    `doing`: what it does now, in a few words; called in that thread. While the database is away the row waits.
    `aside`: called in that thread after each heartbeat; it returns at once.
    """

    def __init__(
        self,
        role: str,
        doing: Callable[[], str],
        aside: Callable[[], None] | None = None,
    ) -> None:
        self.role = role
        self.doing = doing
        self.aside = aside
        self.worker: Worker | None = None
        self._sampler, self._ended, self._is_away = Sampler(), threading.Event(), False
        self._thread = threading.Thread(target=self._live, name="presence", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Say goodbye, for which GOODBYE_S must do: a row without one is found silent."""
        self._ended.set()
        self._thread.join(GOODBYE_S)

    def _live(self) -> None:
        while not self._ended.is_set():
            self._say(self._beat)
            self._ended.wait(min(PRESENCE_SECONDS, settings.LEASE_SECONDS / 3))
        if self.worker is not None:
            self._say(self.worker.stop)
        connections.close_all()

    def _beat(self) -> None:
        if self.worker is None:
            self.worker = enter(self.role)
        self.worker.beat(self.doing(), **self._sampler.sample())
        if self.aside is not None:
            self.aside()

    def _say(self, words: Callable[[], None]) -> None:
        """Away, or not migrated yet: it is tried again with the next heartbeat, and logged once."""
        try:
            close_old_connections()
            words()
        except Error as error:
            if not self._is_away:
                log.warning("database_away", role=self.role, error=str(error).strip())
            self._is_away = True
            connections.close_all()
        else:
            self._is_away = False
