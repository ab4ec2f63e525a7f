"""Start the openenv package's server in the virtual environment that `scripts/setup --with
openenv` creates.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-openenv" / "bin" / "python"
START_S = 180  # importing its package is slow


@contextmanager
def openenv_server(room: int) -> Iterator[str]:
    """Start a server for up to `room` sessions and return its address; skip the test if the virtual
    environment is missing.
    """
    if not PYTHON.exists():
        pytest.skip("the openenv package is not installed: scripts/setup --with openenv")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        command = [PYTHON, ROOT / "tests" / "openenv_server.py", str(number), str(room)]
        server = subprocess.Popen(command, pass_fds=[number])
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            _wait_for(server, address)
            yield address
        finally:
            server.kill()
            server.wait()


def _wait_for(server: subprocess.Popen, address: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urlopen(f"{address}/health", timeout=START_S) as reply:
                assert reply.status == 200
                return
        except URLError:
            assert server.poll() is None, f"the openenv server ended with {server.returncode}"
            assert time.monotonic() < deadline, (
                f"the openenv server did not start within {START_S} s"
            )
            time.sleep(0.05)
