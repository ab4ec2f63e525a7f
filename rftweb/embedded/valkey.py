"""An embedded Valkey (or Redis) on a UNIX socket with a password: append-only file, no eviction.

It holds only wake-up messages and live text; everything else is in PostgreSQL. The append-only file
keeps queued messages over a restart.
"""

import signal
import time
from pathlib import Path
from urllib.parse import quote

import redis

from rftweb.embedded import folders
from rftweb.embedded.binaries import redis_binary
from rftweb.embedded.server import POLL_S, Server

SOCKET = "valkey.sock"
ENDING_S = 3.0  # time for a server whose parent died to end
CONFIGURATION = """\
port 0
unixsocket "{socket}"
unixsocketperm 600
requirepass {password}
dir "{data}"
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
daemonize no
logfile ""
loglevel warning
"""


def redis_url(var: Path) -> str:
    """Return the URL of the server under `var` in redis-py's form, running or not."""
    socket = folders.socket_folder(var, "valkey", SOCKET) / SOCKET
    return f"unix://:{folders.password(var, 'valkey')}@{quote(str(socket))}?db=0"


class ValkeyServer(Server):
    """The server with its data in `var/valkey`."""

    title = "Valkey"
    death_signal = stop_signal = signal.SIGTERM  # writes its file, then ends
    stop_s = 10.0

    def __init__(self, var: Path) -> None:
        self.var = Path(var).resolve()
        self.data = self.var / "valkey"
        self.socket = folders.socket_folder(self.var, "valkey", SOCKET) / SOCKET
        self.url = redis_url(self.var)

    def ensure(self) -> str:
        """Create the folders and the configuration file; return the REDIS_URL.

        The file has mode 0600, because it holds the password.
        """
        folders.make_private(self.data)
        folders.make_private(self.socket.parent)
        configuration = self.data / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            CONFIGURATION.format(
                socket=self.socket, password=folders.password(self.var, "valkey"), data=self.data
            )
        )
        return self.url

    def command(self) -> tuple[list[str], dict]:
        """Return the server's command line and its Popen keywords."""
        return [str(redis_binary()), str(self.data / "valkey.conf")], {}

    def clear_leftovers(self) -> None:
        """Wait for a server that is shutting down; raise RuntimeError if one keeps running.

        The next server replaces a dead one's socket file.
        """
        deadline = time.monotonic() + ENDING_S
        while running := self.processes():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"a Valkey is already running on {self.data} (process {min(running)})"
                )
            time.sleep(POLL_S)

    def processes(self) -> set[int]:
        """Return the ids of the live server and of its child that rewrites the file."""
        return folders.processes_in(self.data)

    def is_ready(self) -> bool:
        """Tell whether it answers PING; it does not while it loads its file."""
        client = redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):  # BusyLoadingError is a ConnectionError
            return False
        finally:
            client.close()
