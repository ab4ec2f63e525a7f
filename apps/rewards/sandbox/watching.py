"""Watch a guest from outside while it runs.

What it writes, how long it takes, how much memory it takes.
"""

import math
import os
import selectors
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.usage import INTERVAL_S, Usage

START_S = 30.0  # that a guest may take to come up; a busy machine must not take a verdict away
MAX_ERROR_BYTES = (
    4 << 10
)  # bytes of what it writes to its standard error; the rest is read and forgotten
KILLED = 137  # the status of a guest that the kernel killed
TOO_SLOW = "it took too long"
TOO_MUCH = "it wrote too much"
CANCELED = "canceled"
FOLDER = "/tmp"  # the only one that a guest writes to


@dataclass(frozen=True)
class GuestResult:
    """Result of a guest.

    `status`: its exit status, None when it was stopped; `stopped`: by which limit, "" when by none;
    `seconds`: by the clock.
    """

    stdout: bytes
    stderr: bytes
    status: int | None
    stopped: str
    seconds: float


@dataclass(frozen=True)
class Streams:
    """Input and output streams of a guest.

    stdin        what it reads, or a descriptor that it reads from
    stdout       a descriptor that it writes to; None brings its output back
    kept_errors  bytes of what it writes to its standard error; the rest is read and forgotten
    silence_s    for so long it may write no errors; then it takes too long
    until        once this is set, the guest is stopped: its result is not needed any more
    """

    stdin: bytes | int = b""
    stdout: int | None = None
    kept_errors: int = MAX_ERROR_BYTES
    silence_s: float = math.inf
    until: threading.Event | None = None


class Watch:
    """Watch over a guest until it ends or is stopped. `stopped` names the limit it exceeded.

    `streams` are the streams to read, by descriptor: its output "out", its errors "err", and
    "messages", the messages of the process that started it.
    """

    def __init__(self, limits: Limits, streams: Mapping[int, str], how: Streams) -> None:
        self.limits = limits
        self.how = how
        self.streams = dict(streams)
        self.out = b""
        self.err = b""
        self.stopped = ""
        self.began = time.monotonic()
        self.ends = self.began + START_S
        self.last_error_at = math.inf  # when it last wrote an error; its clock has not started
        self.pid: int | None = None
        self.usage: Usage | None = None
        self.looked_at = 0.0

    def hear(self, message: bytes) -> None:
        """Handle a message about the guest."""
        raise NotImplementedError

    def receive(self, stream: int) -> bytes:
        """Read messages about the guest."""
        return os.read(stream, 64 << 10)

    def begin(self) -> None:
        """Start the guest's clock."""
        self.began = self.last_error_at = time.monotonic()
        self.ends = self.began + self.limits.wall_s

    def listen(self) -> None:
        """Read the streams until all have ended, or until a limit is passed."""
        with selectors.DefaultSelector() as selector:
            for stream in self.streams:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map() and not self.stopped:
                remaining = max(0.0, self.ends - time.monotonic())
                for key, _ in selector.select(min(remaining, INTERVAL_S)):
                    if not self._read_stream(key.fd):
                        selector.unregister(key.fd)
                if time.monotonic() > min(self.ends, self.last_error_at + self.how.silence_s):
                    self.stopped = self.stopped or TOO_SLOW
                if self.how.until and self.how.until.is_set():
                    self.stopped = self.stopped or CANCELED
                self._check_memory()

    def _read_stream(self, stream: int) -> bool:
        """Read from a stream. Return False at its end."""
        name = self.streams[stream]
        if name == "messages":
            message = self.receive(stream)
            self.hear(message)
            return bool(message) and not self.has_reported_end
        chunk = os.read(stream, 64 << 10)
        if name == "out":
            self.out += chunk
            if len(self.out) > self.limits.output_bytes:
                self.stopped = TOO_MUCH
            return bool(chunk)
        self.last_error_at = time.monotonic()
        if len(self.err) < self.how.kept_errors:
            self.err += chunk
        return bool(chunk)

    @property
    def has_reported_end(self) -> bool:
        """Tell whether all messages about the guest have arrived."""
        return False

    def _check_memory(self) -> None:
        """Stop a guest that takes too much memory; not more often than each INTERVAL_S."""
        now = time.monotonic()
        if self.stopped or now - self.looked_at < INTERVAL_S:
            return
        self.looked_at = now
        if self.usage is None:
            if self.pid is None:
                return
            self.usage = Usage(self.pid, self.limits, FOLDER)
        self.stopped = self.usage.excess()

    def ended(self, status: int | None) -> GuestResult:
        """Return what became of the guest that ended with this status."""
        seconds = time.monotonic() - self.began
        # What the kernel killed sooner took too much memory.
        is_slow = status == KILLED and seconds > 0.9 * self.limits.cpu_s
        stopped = self.stopped or (TOO_SLOW if is_slow else "")
        out = self.out[: self.limits.output_bytes]
        return GuestResult(
            out, self.err[: self.how.kept_errors], None if stopped else status, stopped, seconds
        )
