"""Registration of each process of the installation as a Worker row, and its end."""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.conf import settings
from django.db import Error, close_old_connections, connections

from apps.plugins.registry import REGISTRY
from apps.runs import code_versions, log_keeper
from apps.runs.models import Worker
from apps.runs.resource_usage import Sampler

log = structlog.get_logger(__name__)
BEAT_SECONDS = 2.0
PRESENCE_SECONDS = 5.0  # of processes that take no orders; a third of a lease if that is shorter
GOODBYE_S = 3.0
MAX_KEY_LENGTH = 80
DIGEST_DIGITS = 12


def enter(role: str, **described: Any) -> Worker:
    """Register this process as a worker, and return its row.

    The row is made once; from now on the log lines of the process bear its key.
    """
    host = socket.gethostname()
    pid = os.getpid()
    details = {**code_versions.read_code_versions(), **described.pop("details", {}), **_plugins()}
    worker, _ = Worker.every.get_or_create(
        key=_build_key(role, host, f":{pid}:{_started_at(pid)}"),
        defaults={"role": role, "host": host, "pid": pid, "details": details, **described},
    )
    log_keeper.call_it(worker.key)
    return worker


def _build_key(role: str, host: str, process: str) -> str:
    """Return the key of a process; a digest ends a long name of its machine."""
    longest = MAX_KEY_LENGTH - len(f"{role}@{process}")
    if len(host) > longest:
        digest = hashlib.sha256(host.encode()).hexdigest()[:DIGEST_DIGITS]
        host = host[: longest - len(digest)] + digest
    return f"{role}@{host}{process}"


def _plugins() -> dict[str, dict[str, str]]:
    """Return the plugins of this process with their versions, and log the refused ones."""
    plugins = REGISTRY.plugins()
    for plugin in plugins:
        if plugin.refused:
            log.warning(
                "plugin_refused", plugin=plugin.title, origin=plugin.origin, why=plugin.refused
            )
    ready = {plugin.title: str(plugin.version) for plugin in plugins if not plugin.refused}
    versions = {plugin.title: "refused" for plugin in plugins if plugin.refused} | ready
    return {"plugins": versions} if versions else {}


def _started_at(pid: int) -> str:
    """Return the process's start in clock ticks since boot: a recycled pid gets another name."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


@dataclass
class WorkerRegistration:
    """Registration of a process that takes jobs.

    Between jobs it sends a heartbeat every BEAT_SECONDS, and receives orders with it.
    """

    worker: Worker
    sampler: Sampler = field(default_factory=Sampler)
    at: float = 0.0

    def keep(self) -> None:
        if time.monotonic() - self.at < BEAT_SECONDS:
            return
        self.worker.order = self.worker.beat(**self.sampler.sample())
        self.at = time.monotonic()


class ServerRegistration:
    """Registration of a process that takes no jobs, with a thread for its heartbeats.

    So requests that it serves never wait for the database.

    `doing`: what it does now, in a few words; called in that thread. While the database is away the
    row waits. `aside`: called in that thread after each heartbeat; it returns at once.
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
        """Mark the process as stopped, within GOODBYE_S; otherwise it is found silent later."""
        self._ended.set()
        self._thread.join(GOODBYE_S)

    def _live(self) -> None:
        while not self._ended.is_set():
            self._write_if_reachable(self._beat)
            self._ended.wait(min(PRESENCE_SECONDS, settings.LEASE_SECONDS / 3))
        if self.worker is not None:
            self._write_if_reachable(self.worker.stop)
        connections.close_all()

    def _beat(self) -> None:
        if self.worker is None:
            self.worker = enter(self.role)
        self.worker.beat(self.doing(), **self._sampler.sample())
        if self.aside is not None:
            self.aside()

    def _write_if_reachable(self, words: Callable[[], None]) -> None:
        """Write to the database; while it is unavailable, log that once.

        The next heartbeat tries again.
        """
        try:
            close_old_connections()
            words()
        except Error as error:
            if not self._is_away:
                log.warning("database_unavailable", role=self.role, error=str(error).strip())
            self._is_away = True
            connections.close_all()
        else:
            self._is_away = False
