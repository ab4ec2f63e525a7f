"""The process in which data-juicer's filters work: one beside each of ours, started when it is asked first, and when it has ended.

It is ended where it takes too long or says what is no answer, and the next question finds another. It ends by itself when we do.
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
from typing import Any

import structlog
from django.conf import settings
from pydantic import BaseModel, ConfigDict, FiniteFloat, StrictBool, ValidationError

from apps.accounts.public_text import public_text
from apps.rewards.sandbox import seccomp

log = structlog.get_logger(__name__)
CHILD = Path(__file__).with_name("child.py")
MISSING = "the data-juicer package is not installed here: scripts/setup --with data-juicer"
START_S = 60.0  # it imports slowly
ANSWER_S = 10.0  # for each million of characters
OVER_S = 5  # that the kernel lets it live beyond that, should we be gone
CHARACTERS = 1_000_000  # that are asked for at once
LONGEST_REPLY = 16 << 20  # bytes
MEMORY_BYTES = 4 << 30
TICK_S = 0.5  # between two calls of `meanwhile`


class NoAnswer(Exception):
    """Nothing is known of the question; the message says why. Another may be answered."""


class Reply(BaseModel):
    """`said`: for each text, whether it is kept, and its statistics. Or `wrong`: by argument what is the matter. Or `error`."""

    model_config = ConfigDict(extra="forbid")

    said: list[tuple[StrictBool, dict[str, FiniteFloat]]] | None = None
    wrong: dict[str, str] = {}
    error: str = ""
    version: str = ""


class FilterProcess:
    """Thread-safe: it is asked one question at a time."""

    def __init__(self, start_s: float = START_S, answer_s: float = ANSWER_S) -> None:
        self.start_s, self.answer_s = start_s, answer_s
        self.child: subprocess.Popen | None = None
        self.lock = Lock()

    def ask(self, op: str, args: Mapping[str, Any], texts: Sequence[str], meanwhile: Callable[[], object] = lambda: None) -> Reply:
        """What this filter says of these texts. `meanwhile` is called again and again while we wait. Raises NoAnswer."""
        seconds = math.ceil(self.answer_s * max(1.0, sum(map(len, texts)) / CHARACTERS))
        question = {"op": op, "args": args, "texts": texts, "seconds": seconds + OVER_S}
        with self.lock:
            self._up(meanwhile)
            reply = self._answer(json.dumps(question).encode() + b"\n", seconds, meanwhile)
            if not (reply.wrong or reply.error) and len(reply.said or ()) != len(texts):
                self._end()
                raise NoAnswer(f"its process says something of {len(reply.said or ())} texts, and was asked for {len(texts)}")
            return reply

    def start(self) -> None:
        """Have it ready before it is asked: what it takes to come up is waited for here. Raises NoAnswer."""
        with self.lock:
            self._up(lambda: None)

    def stop(self) -> None:
        with self.lock:
            self._end()

    def _up(self, meanwhile: Callable[[], object]) -> None:
        if self.child is not None and self.child.poll() is None:
            return
        self._end()
        self.child = _started()
        reply = self._answer(b"", self.start_s, meanwhile)
        if reply.error:
            self._end()
            raise NoAnswer(f"its process did not come up: {reply.error}")
        log.info("data_juicer_started", version=reply.version, pid=self.child.pid)

    def _answer(self, question: bytes, seconds: float, meanwhile: Callable[[], object]) -> Reply:
        try:
            return Reply.model_validate_json(self._heard(question, seconds, meanwhile))
        except ValidationError as error:
            self._end()
            raise NoAnswer(f"its process says what is no answer: {error.errors()[0]['msg']}") from None
        except BaseException:
            self._end()  # what it says later would be taken for the answer to another question
            raise

    def _heard(self, question: bytes, seconds: float, meanwhile: Callable[[], object]) -> bytes:
        """The line that it says to this question. It may be busy before it has read it all, so neither waits for the other."""
        began, heard, left = time.monotonic(), b"", memoryview(question)
        ticked = began
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            if question:
                selector.register(self.child.stdin, selectors.EVENT_WRITE)
            while left or not heard.endswith(b"\n"):
                for key, _ in selector.select(TICK_S):
                    if key.fileobj is self.child.stdout:
                        heard += self._read()
                    elif not (left := left[self._write(left) :]):
                        selector.unregister(self.child.stdin)
                if len(heard) > LONGEST_REPLY:
                    raise NoAnswer(f"its reply is longer than {LONGEST_REPLY} bytes")
                now = time.monotonic()
                if now > began + seconds:
                    raise NoAnswer(f"its process took longer than {seconds:g} s")
                if now > ticked + TICK_S:
                    meanwhile()
                    ticked = now
        return heard

    def _read(self) -> bytes:
        if not (read := os.read(self.child.stdout.fileno(), 1 << 20)):
            raise NoAnswer(self._how_it_ended())
        return read

    def _write(self, left: memoryview) -> int:
        try:
            return os.write(self.child.stdin.fileno(), left)
        except BrokenPipeError:
            raise NoAnswer(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        self.child.kill()  # it may have closed its pipes alone
        return f"its process ended with {self.child.wait()}"

    def _end(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child.stdin.close()
            self.child.stdout.close()
            self.child = None


def _started() -> subprocess.Popen:
    """It sees nothing of our environment; programs that install others are nowhere on its path. Raises NoAnswer."""
    if not settings.DATA_JUICER_PYTHON.exists():
        raise NoAnswer(MISSING)
    try:
        rules = seccomp.program(processes=False).hex()
        child = subprocess.Popen(
            [settings.DATA_JUICER_PYTHON, "-P", CHILD, rules, str(MEMORY_BYTES)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_surroundings(), bufsize=0,
        )  # fmt: skip
    except (seccomp.UnknownMachine, OSError) as error:
        raise NoAnswer(f"its process cannot be started: {public_text(error)}") from None
    os.set_blocking(child.stdin.fileno(), False)
    return child


def _surroundings() -> dict[str, str]:
    quiet = {"OPENBLAS_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    offline = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    return {"PATH": "/nonexistent", "LANG": "C.UTF-8", "HOME": str(settings.VAR / "data-juicer"), **offline, **quiet}


FILTERS = FilterProcess()
