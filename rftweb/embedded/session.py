"""Both embedded servers for the duration of a block: tests and one-off scripts."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rftweb.embedded.postgres import PostgresServer
from rftweb.embedded.valkey import ValkeyServer


@contextmanager
def running(var: Path) -> Iterator[tuple[str, str]]:
    """Start both servers under `var`, yield (DATABASE_URL, REDIS_URL), stop them.

    Logs go to `var/log`.
    """
    with ExitStack() as stack:
        postgres = stack.enter_context(_started(PostgresServer(var)))
        valkey = stack.enter_context(_started(ValkeyServer(var)))
        yield postgres, valkey


@contextmanager
def _started(server: PostgresServer | ValkeyServer) -> Iterator[str]:
    server.ensure()
    log = server.var / "log" / f"{type(server).__name__.removesuffix('Server').lower()}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as file:
        process = server.start(stdout=file, stderr=subprocess.STDOUT)
        try:
            server.wait_ready(process)
            yield server.url
        finally:
            server.stop(process)
