"""An embedded PostgreSQL on a UNIX socket with a password.

`PostgresServer(var).ensure()` creates the data folder with initdb and returns the DATABASE_URL;
`start()` returns the process of the postmaster, which runs in the foreground; `wait_ready(process)`
waits for it; `stop(process)` does a fast shutdown.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

from rftweb.embedded import folders
from rftweb.embedded.account import Account, account_for
from rftweb.embedded.binaries import PostgresBinaries, postgres_binaries
from rftweb.embedded.server import POLL_S, Server

NAME = "rftweb"  # name of the role and of the database
SOCKET = ".s.PGSQL.5432"
ENDING_S = 3.0  # time for a postmaster whose parent died to end
SERVER_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "log_checkpoints": "off",
    "cluster_name": NAME,
}


def postgres_url(var: Path) -> str:
    """Return the URL of the server under `var`, running or not."""
    socket_folder = folders.socket_folder(var, "postgres", SOCKET)
    password = folders.password(var, "postgres")
    return f"postgresql://{NAME}:{password}@{quote(str(socket_folder), safe='')}/{NAME}"


class PostgresServer(Server):
    """The server with its data in `var/postgres`."""

    title = "PostgreSQL"
    death_signal = signal.SIGQUIT  # immediate shutdown: the postmaster takes its backends with it
    stop_signal = signal.SIGINT  # fast shutdown: sessions are ended, a checkpoint is written
    stop_s = 20.0

    def __init__(self, var: Path) -> None:
        self.var = Path(var).resolve()
        self.home = self.var / "postgres"
        self.data = self.home / "data"
        self.sockets = folders.socket_folder(self.var, "postgres", SOCKET)
        self.url = postgres_url(self.var)

    def ensure(self) -> str:
        """Create the data folder if it is missing; return the DATABASE_URL.

        Raises NoServerBinary, WrongMajor or NoAccount, each with what to do about it.
        """
        binaries, account = self._installation()
        folders.make_private(self.home, account.owner)
        folders.make_private(self.sockets, account.owner)
        if not self.data.exists():
            self._make_cluster(binaries, account)
        return self.url

    def command(self) -> tuple[list[str], dict]:
        """Return the postmaster's command line and its Popen keywords (user and group)."""
        binaries, account = self._installation()
        options = [f"--{name.replace('_', '-')}={value}" for name, value in SERVER_OPTIONS.items()]
        return (
            account.command(binaries["postgres"], "-D", self.data, "-k", self.sockets, *options),
            account.process,
        )

    def is_ready(self) -> bool:
        """Tell whether a session can be opened."""
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def clear_leftovers(self) -> None:
        """End backends that outlived a killed postmaster, and remove its stale lock file.

        PostgreSQL refuses to start while an old backend holds the shared memory, or while another
        process has the process id in a stale lock file. A postmaster that is shutting down is
        waited for. Raises RuntimeError if one keeps running.
        """
        lock = self.data / "postmaster.pid"
        deadline = time.monotonic() + ENDING_S
        while (postmaster := _process_in(lock)) is not None:
            ours = self.processes()
            if postmaster not in ours:
                for pid in ours:
                    with contextlib.suppress(ProcessLookupError):  # it ended by itself
                        os.kill(pid, signal.SIGKILL)
                lock.unlink(missing_ok=True)
            elif time.monotonic() > deadline:
                raise RuntimeError(
                    f"PostgreSQL is already running on {self.data} (process {postmaster})"
                )
            else:
                time.sleep(POLL_S)

    def processes(self) -> set[int]:
        """Return the ids of the live postmaster and its backends."""
        return folders.processes_in(self.data)

    def _installation(self) -> tuple[PostgresBinaries, Account]:
        version = self.data / "PG_VERSION"
        binaries = postgres_binaries(int(version.read_text()) if version.exists() else None)
        return binaries, account_for(self.home, (binaries["postgres"], binaries["initdb"]))

    def _make_cluster(self, binaries: PostgresBinaries, account: Account) -> None:
        """Run initdb in a draft folder and rename it.

        So an interrupted start leaves no incomplete cluster.
        """
        draft = self.home / "data.new"
        secret = self.home / "password"
        shutil.rmtree(draft, ignore_errors=True)
        secret.touch(mode=0o600)
        secret.write_text(folders.password(self.var, "postgres"))
        if account.owner:
            os.chown(secret, *account.owner)
        initdb = (
            binaries["initdb"],
            "-D",
            draft,
            "-U",
            NAME,
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "--no-instructions",
        )
        try:
            _run(account, initdb)
        finally:
            secret.unlink()
        _run(
            account,
            (binaries["postgres"], "--single", "-D", draft, "postgres"),
            f"CREATE DATABASE {NAME}\n",
        )
        draft.rename(self.data)


def _process_in(lock: Path) -> int | None:
    """Return the process id in a lock file; 0 if a power failure has left none in it.

    Returns None without a file: a server that ends removes it at any moment.
    """
    try:
        return int(lock.read_bytes().partition(b"\n")[0])
    except FileNotFoundError:
        return None
    except ValueError:
        return 0


def _run(account: Account, words: tuple, text: str = "") -> None:
    """Run a program to its end as `account`. Raise RuntimeError with its last output."""
    command = account.command(*words)
    process = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd="/", check=False, **account.process
    )
    if process.returncode != 0:
        raise RuntimeError(
            f"{words[0]} failed with code {process.returncode}: {process.stderr.strip()[-2000:]}"
        )
