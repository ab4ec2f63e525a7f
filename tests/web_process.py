"""A separate web process on a reserved port that tests can kill and restart, and a connection to
it that tests can cut.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tests.browser.conftest import _url_of, _wait_until_quiet, _wait_until_served
from tests.ports import kept_port

ROOT = Path(__file__).resolve().parents[1]


class WebProcess:
    """uvicorn on the test's database and Redis."""

    def __init__(self, has_row: bool = False) -> None:
        """Prepare the process; with `has_row` it is listed among the workers, as in production."""
        self.lifespan = "on" if has_row else "off"
        self.keeper, self.port = kept_port()
        self.database = _url_of(connection.settings_dict)
        self.process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process and return once it answers requests."""
        command = [sys.executable, "-m", "rftweb.server", "--port", str(self.port)]
        environment = {
            **os.environ,
            "DATABASE_URL": self.database,
            "REDIS_URL": settings.REDIS_URL,
            "RFTWEB_VAR": str(settings.VAR),
            "RFTWEB_DEBUG": "0",
        }
        self.process = subprocess.Popen(
            [*command, "--lifespan", self.lifespan], cwd=ROOT, env=environment
        )
        _wait_until_served(self.port, self.process)

    def kill(self) -> None:
        """Kill the process without a clean shutdown, like a power cut."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Terminate the process, as its supervisor does."""
        self.process.terminate()
        self.process.wait(60)

    def end(self) -> None:
        self.stop()
        self.keeper.close()


@pytest.fixture(scope="module")
def web_of_file(django_db_setup) -> Iterator[WebProcess]:
    """Start one process for all tests of a file, since starting takes several seconds."""
    web = WebProcess()
    web.start()
    yield web
    web.end()


@pytest.fixture
def served(db, web_of_file) -> Iterator[str]:
    """Return the address of a web process on the test's database."""
    yield web_of_file.address
    _wait_until_quiet()


class Wire:
    """Forwards connections to a port until it is cut: then open connections break and new ones
    are refused.
    """

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.is_cut = False
        self.ends = []
        self.turning = threading.Lock()  # a connection is forwarded completely or not at all
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        with self.turning:
            self.is_cut = True
            for end in self.ends:
                _close(end)
            self.ends.clear()

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self.cut()
        _close(self.listener)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                with self.turning:
                    if self.is_cut:
                        _close(near)
                        continue
                    far = socket.create_connection(("127.0.0.1", self.to_port))
                    self.ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
    _close(source)
    _close(target)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
