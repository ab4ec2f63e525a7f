"""The web server: `python -m rftweb.server --host 127.0.0.1 --port 8000 --workers 2`.

It is uvicorn with the connections of rftweb.http_protocol, and as many open files as the system
allows.
"""

import argparse
import importlib
import resource
from collections.abc import Sequence
from typing import TypedDict

import uvicorn

from rftweb.environment import setting_errors_end_the_process
from rftweb.number_arguments import PORTS, whole_number

APPLICATION = "rftweb.asgi:application"
PROTOCOL = "rftweb.http_protocol:BoundedHttp"
MAX_FILES = 65_536
MAX_WORKERS = 1_000
GRACEFUL_S = 5
# Limits of WebSockets. OpenEnv's messages have up to a million characters; uvicorn's defaults are
# 16 MiB and 32.


class SocketLimits(TypedDict):
    """uvicorn's limits of a socket: bytes of a message, messages that wait to be read."""

    ws_max_size: int
    ws_max_queue: int


SOCKET_LIMITS: SocketLimits = {"ws_max_size": 4 * 1024 * 1024, "ws_max_queue": 4}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rftweb.server", description="Serve pages, REST and sockets."
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen at (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=whole_number(*PORTS), default=8000, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--workers",
        type=whole_number(1, MAX_WORKERS),
        default=1,
        help="processes (default: %(default)s)",
    )
    parser.add_argument(
        "--lifespan",
        choices=("on", "off"),
        default="on",
        help="whether this process is listed among the workers",
    )
    options = parser.parse_args(arguments)
    with setting_errors_end_the_process():
        importlib.import_module("rftweb.settings")
    raise_file_limit()
    uvicorn.run(
        APPLICATION,
        host=options.host,
        port=options.port,
        workers=options.workers,
        http=PROTOCOL,
        lifespan=options.lifespan,
        access_log=False,
        timeout_graceful_shutdown=GRACEFUL_S,
        **SOCKET_LIMITS,
    )


def raise_file_limit() -> None:
    """Raise the limit of open files.

    Each connection and each body in a file takes one; the usual soft limit is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


if __name__ == "__main__":
    main()
