"""Storage of a process's log lines as database rows, beside its normal output.

So they can be searched on one page for all machines.

Work never waits for it and never fails of it: a line goes into a bounded queue, one thread of its
own writes batches. What finds the queue full is dropped, counted, and said in a line once the
database takes lines again.
"""

import atexit
import json
import logging
import os
import queue
import re
import socket
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    close_old_connections,
    connections,
)

from apps.accounts.public_text import public_text

LINES_WAITING = 5_000
LINES_AT_ONCE = 500
GATHER_S = 0.3
RETRY_S = 2.0
IDLE_S = 60.0
MAX_VALUE_LENGTH = 2_000
MAX_TRACEBACK_LENGTH = 8_000
MAX_FIELDS = 40
MAX_ITEMS = 100
HIDDEN = "[secret]"
SECRET_NAMES = re.compile(
    r"pass(word|wd|phrase)?$|secret|authorization|cookie|api_?key|credential|(^|_)token$",
    re.IGNORECASE,
)
SECRETS = re.compile(
    r"rft_usr_[\w-]+|\bsk-[\w-]{16,}|\bhf_\w{16,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)",
    re.ASCII,
)
NOT_TOLD = (
    "event",
    "level",
    "logger",
    "timestamp",
    "run",
    "run_id",
    "exc_info",
    "_record",
    "_from_structlog",
    "stack_info",
)


class LogKeeper(logging.Handler):
    """Log storage of one process; `worker` is the name that its lines carry."""

    def __init__(self, worker: str, waiting: int = LINES_WAITING) -> None:
        super().__init__(logging.INFO)
        self.worker = worker
        self.dropped = 0
        self.waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(
            waiting
        )  # None: write no more
        self.thread: threading.Thread | None = None
        self.pid = os.getpid()
        self.written = threading.Condition()
        self.unwritten = 0

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is self.thread:
            return  # of its own doing: it would never end
        try:
            line = build_log_line(record)
        except Exception:  # what cannot be told must not break what tells it
            self.handleError(record)
            return
        self._ensure_thread()
        with self.written:
            self.unwritten += 1
        try:
            self.waiting.put_nowait({**line, "worker": self.worker})
        except queue.Full:
            self._drop(1)
            self._mark_written(1)

    def settle(self, seconds: float) -> bool:
        """Wait at most this long until all lines so far are written; return whether they are."""
        with self.written:
            return self.written.wait_for(lambda: self.unwritten == 0, seconds)

    def close(self) -> None:
        """Write what waits, and end the thread."""
        if self.thread is not None and self.pid == os.getpid():
            with suppress(queue.Full):
                self.waiting.put(None, timeout=RETRY_S)
            self.thread.join(RETRY_S)
        super().close()

    def _ensure_thread(self) -> None:
        """Start the thread with the first line; a forked child needs one of its own."""
        if self.thread is None or self.pid != os.getpid():
            self.pid = os.getpid()
            self.unwritten = 0
            self.written, self.waiting = threading.Condition(), queue.Queue(self.waiting.maxsize)
            self.thread = threading.Thread(target=self._live, name="log keeper", daemon=True)
            self.thread.start()

    def _live(self) -> None:
        while True:
            try:
                lines = [self.waiting.get(timeout=IDLE_S)]
            except queue.Empty:
                connections.close_all()
                continue
            if lines != [None]:
                time.sleep(GATHER_S)  # a slice says several things at once
            while len(lines) < LINES_AT_ONCE and not self.waiting.empty():
                lines.append(self.waiting.get_nowait())
            records = [line for line in lines if line is not None]
            if records:
                self._write(records)
                self._mark_written(len(records))
            if len(records) < len(lines):
                connections.close_all()
                return

    def _write(self, lines: list[dict[str, Any]]) -> None:
        """Write the lines, and retry until the database is available.

        Lines that the database refuses are dropped, and counted.
        """
        while True:
            dropped = self.dropped
            try:
                close_old_connections()
                write_lines([*lines, *self._dropped_records(dropped)])
            except (OperationalError, InterfaceError):  # away
                connections.close_all()
                time.sleep(RETRY_S)
            except DatabaseError:
                self._drop(len(lines))
                return
            else:
                self._drop(-dropped)
                return

    def _dropped_records(self, dropped: int) -> list[dict[str, Any]]:
        if not dropped:
            return []
        words = {"lines": dropped, "reason": "the database was too slow or unavailable"}
        record = {
            "at": datetime.now(UTC),
            "level": logging.WARNING,
            "event": "log_lines_dropped",
            "logger": __name__,
        }
        return [{**record, "run_id": None, "fields": words, "worker": self.worker}]

    def _drop(self, lines: int) -> None:
        with self.written:
            self.dropped += lines

    def _mark_written(self, lines: int) -> None:
        with self.written:
            self.unwritten -= lines
            self.written.notify_all()


_keeper: LogKeeper | None = None


def begin_keeping(role: str) -> None:
    """Keep this process's lines from now on, where the installation keeps any."""
    global _keeper
    if _keeper is None and settings.LOG_ROWS:
        _keeper = LogKeeper(f"{role}@{socket.gethostname()}:{os.getpid()}"[:80])
        logging.getLogger().addHandler(_keeper)
        atexit.register(finish_keeping)


def call_it(worker: str) -> None:
    """Set the name that this process's log lines carry from now on.

    A worker gets its own name when it is registered.
    """
    if _keeper is not None:
        _keeper.worker = worker[:80]


def finish_keeping(seconds: float = 2.0) -> None:
    """Wait briefly at the end of the process for its last log lines to be written."""
    if _keeper is not None and _keeper.thread is not None:
        _keeper.settle(seconds)


def write_lines(lines: list[dict[str, Any]]) -> None:
    """Write these lines; one of a run that is gone is of no run."""
    from apps.runs.models import LogLine, Run  # this module is loaded before the tables are known

    runs = {line["run_id"] for line in lines} - {None}
    existing = set(Run.objects.filter(pk__in=runs).values_list("pk", flat=True)) if runs else set()
    LogLine.objects.bulk_create(
        LogLine(**{**line, "run_id": line["run_id"] if line["run_id"] in existing else None})
        for line in lines
    )


def build_log_line(record: logging.LogRecord) -> dict[str, Any]:
    """Convert a log record to a row: structlog's event and fields, or another library's text."""
    event: Mapping[str, Any] = (
        record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}
    )
    fields = {
        str(name)[:60]: shorten_value(value, str(name))
        for name, value in event.items()
        if name not in NOT_TOLD
    }
    if isinstance(event.get("run"), str):
        fields["run"] = event["run"]
    if error := _traceback_of(record, event):
        fields["traceback"] = shorten_value(
            error[-MAX_TRACEBACK_LENGTH:], max_length=MAX_TRACEBACK_LENGTH
        )
    run_id = event.get("run_id")
    return {
        "at": datetime.fromtimestamp(record.created, UTC),
        "level": min(50, max(10, record.levelno // 10 * 10)),
        "event": shorten_value(event.get("event", ""), max_length=200),
        "logger": record.name[:100],
        "run_id": run_id if isinstance(run_id, int) else None,
        "fields": dict(list(fields.items())[:MAX_FIELDS]),
    }


def _traceback_of(record: logging.LogRecord, event: Mapping[str, Any]) -> str:
    exc_info = record.exc_info or event.get("exc_info")
    if exc_info is True or not exc_info:
        return ""
    return "".join(
        traceback.format_exception(*exc_info)
        if isinstance(exc_info, tuple)
        else traceback.format_exception(exc_info)
    )


def shorten_value(value: Any, name: str = "", max_length: int = MAX_VALUE_LENGTH) -> Any:
    """Convert a value for a JSON column: short, without zero bytes and without secrets."""
    if SECRET_NAMES.search(name):
        return HIDDEN
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if json.dumps(value) not in ("NaN", "Infinity", "-Infinity") else str(value)
    if isinstance(value, Mapping):
        return {
            str(key)[:60]: shorten_value(inner, str(key), max_length)
            for key, inner in list(value.items())[:MAX_ITEMS]
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [shorten_value(inner, "", max_length) for inner in list(value)[:MAX_ITEMS]]
    text = (
        str(value)[: 4 * max_length].replace("\x00", "�").encode("utf-8", "replace").decode()
    )  # no half of a character
    return SECRETS.sub(HIDDEN, public_text(text))[:max_length]
