"""Python programs that load models, each in a process forked from one that has imported torch.

Importing torch and transformers takes four seconds of processor time, most of the cost of such a
program in a test. Meanwhile `sys.executable` is a script: started with `-m` and one of MODULES, it
requests a forked process that runs the module with the script's arguments, folder, environment and
files. Any other program is started as usual. The script ends with the exit status of the forked
process, and the process ends with the script. Tests of commands, and tests that follow a worker
from its start, start Python itself.

`python -m tests.forked_modules SOCKET` is the process that forks.
"""

import array
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

from rftweb.parent_death import make_die_with_parent

ROOT = Path(__file__).resolve().parent.parent
STARTER = Path(__file__).with_name("start_forked_module.py")
MODULES = ("workers.exporting.gguf_file", "workers.policies.adopt", "workers.policies.preview")
# What they import only when they need it.
HEAVY = ("workers.policies.bringing_in", "workers.exporting.gguf_writing")
SCRIPT = """#!/bin/sh
case "$1 $2" in
{cases}) exec {python} -I -S {starter} {address} "$@" ;;
esac
exec {python} "$@"
"""
MAX_BYTES = 1 << 20  # of what a process is asked for
FILES = 3  # standard input, output and error


@pytest.fixture(scope="session")
def forking_python() -> Iterator[Path]:
    """Yield the script that replaces Python, while the forking process runs."""
    with tempfile.TemporaryDirectory(prefix="rftweb-forks-") as folder:
        address = Path(folder) / "socket"
        script = Path(folder) / "python"
        names = {"python": sys.executable, "starter": STARTER, "address": address}
        script.write_text(SCRIPT.format(cases=" | ".join(f'"-m {m}"' for m in MODULES), **names))
        script.chmod(0o755)
        command = [sys.executable, "-m", "tests.forked_modules", str(address)]
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        environment.pop("HF_HUB_OFFLINE", None)
        tie = make_die_with_parent()
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, preexec_fn=tie
        ) as process:
            assert process.stdout.readline() == b"up\n"
            yield script
            process.kill()


@pytest.fixture
def forked_modules(forking_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the programs of MODULES by forking, in this test."""
    monkeypatch.setattr(sys, "executable", str(forking_python))


class Forks:
    """The processes requested over a socket, each with the connection that waits for it."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    self._start(self.listener.accept()[0])
                else:
                    self._end(key.fileobj, *key.data)

    def _start(self, connection: socket.socket) -> None:
        request, files = _received(connection)
        if (pid := os.fork()) == 0:
            self.listener.close()
            _become(connection, json.loads(request), files)
        for file in files:
            os.close(file)
        handle = os.pidfd_open(pid)
        self.selector.register(handle, selectors.EVENT_READ, (pid, connection))

    def _end(self, handle: int, pid: int, connection: socket.socket) -> None:
        self.selector.unregister(handle)
        os.close(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with connection:
            connection.send(str(status).encode())


def _received(connection: socket.socket) -> tuple[bytes, array.array]:
    files = array.array("i")
    room = socket.CMSG_SPACE(FILES * files.itemsize)
    request, [(_, _, handed)], _, _ = connection.recvmsg(MAX_BYTES, room)
    files.frombytes(handed)
    return request, files


def _become(connection: socket.socket, asked: dict, files: array.array) -> NoReturn:
    """Run the module in this forked process, which ends as Python itself would."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    threading.Thread(target=_obey, args=(connection,), daemon=True).start()
    _, module, *arguments = asked["arguments"]
    sys.argv = [module, *arguments]
    del sys.modules[module]  # it runs again; its imports are already loaded
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)


def _obey(connection: socket.socket) -> None:
    """Pass on the signals that the starter gets; end with it."""
    while number := connection.recv(1):
        os.kill(os.getpid(), number[0])
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    for module in (*MODULES, *HEAVY):
        import_module(module)
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        print("up", flush=True)
        Forks(listener).serve()


if __name__ == "__main__":
    main()
