"""Commands of manage.py for one installation, each in a process forked from one that has loaded the
application.

Loading takes two seconds of processor time, most of what a short command costs. The process that
forks has opened no connection and runs no command itself. Tests of commands start manage.py as
people do.

`python -m tests.forked_commands` reads one JSON list of arguments a line, and answers each with one
line.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import django

from rftweb.__main__ import main
from rftweb.parent_death import make_die_with_parent

ROOT = Path(__file__).resolve().parent.parent


class ForkedCommands:
    """Run commands in the given environment, one after another."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_commands"],
            cwd=ROOT,
            env={**environment, "DJANGO_SETTINGS_MODULE": "rftweb.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=make_die_with_parent(),
        )

    def run(self, arguments: tuple[str, ...], timeout_s: float) -> subprocess.CompletedProcess:
        """Run `manage.py` with these arguments. Raises TimeoutExpired."""
        with self._lock:
            request = {"arguments": arguments, "timeout_s": timeout_s}
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        assert line, "the process that forks commands has ended"
        answer = json.loads(line)
        command = ["manage.py", *arguments]
        if answer["code"] is None:
            raise subprocess.TimeoutExpired(command, timeout_s)
        return subprocess.CompletedProcess(
            command, answer["code"], answer["stdout"], answer["stderr"]
        )

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)


def serve() -> None:
    """Load the application, then run what standard input asks for until it ends."""
    django.setup()
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        for line in sys.stdin:
            print(json.dumps(_answer(**json.loads(line))), file=answers, flush=True)


def _answer(arguments: list[str], timeout_s: float) -> dict:
    """Run one command; its exit code is None when it took too long and was killed."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        if (pid := os.fork()) == 0:
            _become_command(arguments, stdout.fileno(), stderr.fileno())
        code = _wait(pid, timeout_s)
        stdout.seek(0)
        stderr.seek(0)
        return {"code": code, "stdout": stdout.read(), "stderr": stderr.read()}


def _become_command(arguments: list[str], stdout: int, stderr: int) -> NoReturn:
    """Run the command in this forked process, which ends with it as manage.py does."""
    make_die_with_parent(parent=os.getppid())()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    sys.argv = ["manage.py", *arguments]
    main()
    raise SystemExit(0)


def _wait(pid: int, timeout_s: float) -> int | None:
    ending = os.pidfd_open(pid)
    try:
        has_ended = bool(select.select([ending], [], [], timeout_s)[0])
    finally:
        os.close(ending)
    if not has_ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if has_ended else None


if __name__ == "__main__":
    serve()
