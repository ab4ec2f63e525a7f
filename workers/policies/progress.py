"""Progress of a long command: lines for a terminal, or JSON lines for a parent process."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


class Terminal:
    """Sentences on standard error; a quick stage prints nothing."""

    every_s = 2.0

    def begin(self, name: str, total: int) -> None:
        """Print nothing: the stage may be over at once."""

    def tell(self, name: str, done: int, total: int, seconds: float) -> None:
        share = f"{min(100, 100 * done // total)} %, " if total else ""
        _print(f"{name}: {share}{seconds:.0f} s")

    def end(self, name: str, seconds: float) -> None:
        if seconds >= self.every_s:
            _print(f"{name}: done, {seconds:.1f} s")

    def note(self, source: str, sentence: str) -> None:
        _print(f"{source}: note: {sentence}")

    def example(self, template: str, dialogue: str) -> None:
        _print(f"a dialogue by the chat template {template}:")
        for line in dialogue.splitlines():
            _print(f"    {line}")

    def refuse(self, source: str, sentence: str) -> None:
        _print(f"{source}: {sentence}")


class JsonLines:
    """One JSON object a line on standard output: a stage and its bytes, a note, or a refusal."""

    every_s = 0.5

    def begin(self, name: str, total: int) -> None:
        self.tell(name, 0, total, 0.0)

    def tell(self, name: str, done: int, total: int, seconds: float) -> None:
        doing = name.rpartition(": ")[2]  # stages are named "SOURCE: what is done"
        _emit(stage=doing, done=done, total=total)

    def end(self, name: str, seconds: float) -> None:
        """Emit nothing: the next stage says that this one is over."""

    def note(self, source: str, sentence: str) -> None:
        _emit(note=sentence)

    def example(self, template: str, dialogue: str) -> None:
        """Emit nothing: pages show a preview of any dialogue."""

    def refuse(self, source: str, sentence: str) -> None:
        _emit(refusal=sentence)


_reporter: Terminal | JsonLines = Terminal()


def report_as_json() -> None:
    """Report as JSON lines from now on, in this process."""
    global _reporter
    _reporter = JsonLines()


def reporter() -> Terminal | JsonLines:
    """Return what this process reports by."""
    return _reporter


@contextmanager
def stage(name: str, total: int = 0) -> Iterator[Advance]:
    """Report regularly that `name` ("SOURCE: what is done") is running.

    Yields a function that is told how many more bytes are done, of `total`; without a total, only
    the time is reported.
    """
    done = 0
    began = time.monotonic()
    ended = threading.Event()
    to = _reporter

    def advance(more: int) -> None:
        nonlocal done
        done += more

    def tell() -> None:
        while not ended.wait(to.every_s):
            to.tell(name, done, total, time.monotonic() - began)

    to.begin(name, total)
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield advance
    finally:
        ended.set()
        teller.join()
    to.end(name, time.monotonic() - began)


def _emit(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
