"""An embedded Valkey (or Redis): append-only file, no eviction, a UNIX socket with a password, no port.

What it holds is only bells and live text; PostgreSQL has the truth. The append-only file keeps queued wake-ups
over a restart, no more.
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
ENDING_S = 3.0  # how long a server whose parent died may take to end
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
    """The address of the server under `var` in redis-py's form, whether it runs or not."""
    socket = folders.socket_folder(var, "valkey", SOCKET) / SOCKET
    return f"unix://:{folders.password(var, 'valkey')}@{quote(str(socket))}?db=0"


class ValkeyServer(Server):
    """The server whose data lies under `var/valkey`."""

    title = "Valkey"
    death_signal = stop_signal = signal.SIGTERM  # writes its file out, then ends
    stop_s = 10.0

    def __init__(self, var: Path) -> None:
        self.var = Path(var).resolve()
        self.data = self.var / "valkey"
        self.socket = folders.socket_folder(self.var, "valkey", SOCKET) / SOCKET
        self.url = redis_url(self.var)

    def ensure(self) -> str:
        """Make the folders and the configuration file (0600: it holds the password); return the REDIS_URL."""
        folders.make_private(self.data)
        folders.make_private(self.socket.parent)
        configuration = self.data / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            CONFIGURATION.format(socket=self.socket, password=folders.password(self.var, "valkey"), data=self.data)
        )
        return self.url

    def command(self) -> tuple[list[str], dict]:
        """The server's command line and its Popen keywords."""
        return [str(redis_binary()), str(self.data / "valkey.conf")], {}

    def clear_leftovers(self) -> None:
        """Wait for a server that is just ending; raises RuntimeError when one is there to stay.

        A dead server's socket file is replaced by the next one.
        """
        deadline = time.monotonic() + ENDING_S
        while found := self.processes():
            if time.monotonic() > deadline:
                raise RuntimeError(f"a Valkey is already running on {self.data} (process {min(found)})")
            time.sleep(POLL_S)

    def processes(self) -> set[int]:
        """The living server, and its child while that rewrites the append-only file."""
        return folders.processes_in(self.data)

    def is_ready(self) -> bool:
        """Whether it answers PING; while it still loads its file it does not."""
        client = redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):  # BusyLoadingError is a ConnectionError
            return False
        finally:
            client.close()
