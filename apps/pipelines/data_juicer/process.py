"""The filter process: one for each of our processes, started at the first request.

It is killed when it takes too long or sends an invalid reply, and the next request starts another.
It ends by itself when its parent does.
"""

import json
import math
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO, Any

import structlog
from django.conf import settings
from pydantic import BaseModel, ConfigDict, FiniteFloat, StrictBool, ValidationError

from apps.accounts.public_text import public_text
from apps.rewards.sandbox import seccomp

log = structlog.get_logger(__name__)
CHILD = Path(__file__).with_name("child.py")
MISSING = "the data-juicer package is not installed here: run scripts/setup --with data-juicer"
START_S = 60.0  # the package imports slowly
ANSWER_S = 10.0  # seconds for each million characters
OVER_S = 5  # extra seconds before the kernel kills it, if this process is gone
CHARACTERS = 1_000_000  # characters per request
MAX_REPLY_LENGTH = 16 << 20  # bytes
MEMORY_BYTES = 4 << 30
TICK_S = 0.5  # seconds between two calls of `meanwhile`


class NoAnswer(Exception):
    """An error for a request without a reply; the message says why. Another request may succeed."""


class Reply(BaseModel):
    """A reply of the filter process.

    `results` holds, for each text, whether it is kept, and its statistics. Otherwise `wrong` holds
    problems by argument, or `error` a failure.
    """

    model_config = ConfigDict(extra="forbid")

    results: list[tuple[StrictBool, dict[str, FiniteFloat]]] | None = None
    wrong: dict[str, str] = {}
    error: str = ""
    version: str = ""


class FilterProcess:
    """A client of the filter process. Thread-safe: it sends one request at a time."""

    def __init__(self, start_s: float = START_S, answer_s: float = ANSWER_S) -> None:
        self.start_s = start_s
        self.answer_s = answer_s
        self.child: subprocess.Popen | None = None
        self.lock = Lock()

    def ask(
        self,
        op: str,
        args: Mapping[str, Any],
        texts: Sequence[str],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Reply:
        """Return this filter's results for these texts.

        `meanwhile` is called repeatedly during the wait. Raises NoAnswer.
        """
        seconds = math.ceil(self.answer_s * max(1.0, sum(map(len, texts)) / CHARACTERS))
        question = {"op": op, "args": args, "texts": texts, "seconds": seconds + OVER_S}
        with self.lock:
            self._ensure_started(meanwhile)
            reply = self._answer(json.dumps(question).encode() + b"\n", seconds, meanwhile)
            if not (reply.wrong or reply.error) and len(reply.results or ()) != len(texts):
                self._end()
                raise NoAnswer(
                    f"the process answered for {len(reply.results or ())} texts instead of "
                    f"{len(texts)}"
                )
            return reply

    def start(self) -> None:
        """Start the process ahead of the first request, and wait until it is ready.

        Raises NoAnswer.
        """
        with self.lock:
            self._ensure_started(lambda: None)

    def stop(self) -> None:
        with self.lock:
            self._end()

    def _ensure_started(self, meanwhile: Callable[[], object]) -> None:
        if self.child is not None and self.child.poll() is None:
            return
        self._end()
        self.child = _start_process()
        reply = self._answer(b"", self.start_s, meanwhile)
        if reply.error:
            self._end()
            raise NoAnswer(f"the process did not start: {reply.error}")
        log.info("data_juicer_started", version=reply.version, pid=self.child.pid)

    def _answer(self, question: bytes, seconds: float, meanwhile: Callable[[], object]) -> Reply:
        try:
            return Reply.model_validate_json(self._exchange(question, seconds, meanwhile))
        except ValidationError as error:
            self._end()
            raise NoAnswer(
                f"the process sent an invalid answer: {error.errors()[0]['msg']}"
            ) from None
        except BaseException:
            self._end()  # a late reply would be taken for the answer to another request
            raise

    def _exchange(self, question: bytes, seconds: float, meanwhile: Callable[[], object]) -> bytes:
        """Send a request and return the reply line.

        Reading and writing are interleaved, since the process may reply before it has read
        everything.
        """
        began = time.monotonic()
        received = b""
        unsent = memoryview(question)
        ticked = began
        stdin, stdout = self._pipes()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if question:
                selector.register(stdin, selectors.EVENT_WRITE)
            while unsent or not received.endswith(b"\n"):
                for key, _ in selector.select(TICK_S):
                    if key.fileobj is stdout:
                        received += self._read(stdout)
                    elif not (unsent := unsent[self._write(stdin, unsent) :]):
                        selector.unregister(stdin)
                if len(received) > MAX_REPLY_LENGTH:
                    raise NoAnswer(f"the reply is longer than {MAX_REPLY_LENGTH} bytes")
                now = time.monotonic()
                if now > began + seconds:
                    raise NoAnswer(f"the process took longer than {seconds:g} s")
                if now > ticked + TICK_S:
                    meanwhile()
                    ticked = now
        return received

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the standard input and output of the running process."""
        assert self.child and self.child.stdin and self.child.stdout
        return self.child.stdin, self.child.stdout

    def _read(self, stdout: IO[bytes]) -> bytes:
        if not (read := os.read(stdout.fileno(), 1 << 20)):
            raise NoAnswer(self._describe_end())
        return read

    def _write(self, stdin: IO[bytes], unsent: memoryview) -> int:
        try:
            return os.write(stdin.fileno(), unsent)
        except BrokenPipeError:
            raise NoAnswer(self._describe_end()) from None

    def _describe_end(self) -> str:
        assert self.child is not None  # it was asked
        self.child.kill()  # it may have closed only its pipes
        return f"the process exited with {self.child.wait()}"

    def _end(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            for pipe in self._pipes():
                pipe.close()
            self.child = None


def _start_process() -> subprocess.Popen:
    """Start the process, without our environment and without installers on its path.

    Raises NoAnswer.
    """
    if not settings.DATA_JUICER_PYTHON.exists():
        raise NoAnswer(MISSING)
    try:
        rules = seccomp.program(processes=False).hex()
        child = subprocess.Popen(
            [settings.DATA_JUICER_PYTHON, "-P", CHILD, rules, str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_surroundings(),
            bufsize=0,
        )
    except (seccomp.UnknownMachine, OSError) as error:
        raise NoAnswer(f"the process cannot be started: {public_text(error)}") from None
    assert child.stdin is not None  # a pipe
    os.set_blocking(child.stdin.fileno(), False)
    return child


def _surroundings() -> dict[str, str]:
    quiet = {"OPENBLAS_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    offline = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    return {
        "PATH": "/nonexistent",
        "LANG": "C.UTF-8",
        "HOME": str(settings.VAR / "data-juicer"),
        **offline,
        **quiet,
    }


FILTERS = FilterProcess()
