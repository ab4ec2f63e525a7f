"""Copies of one migrated PostgreSQL cluster, for test processes and stacks without migrations.

initdb and all migrations take ten seconds or more; a copy of the result takes half a second. The
cluster is kept in the system's temporary folder under a key of everything that decides what is in
it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rftweb.embedded import PostgresServer, folders
from rftweb.embedded.binaries import postgres_binaries

ROOT = Path(__file__).resolve().parent.parent
DECISIVE = ("apps/*/migrations/*.py", "rftweb/sql/*.py", "rftweb/embedded/*.py")
UNUSED_DAYS = 3


def copy_migrated_cluster(var: Path) -> PostgresServer:
    """Put a migrated cluster under `var`; its database `rftweb` has every table and no
    rows of the product.

    The first caller on a machine makes the cluster that later callers copy.
    """
    return copy_cluster(_cached() / "kept", var)


def copy_cluster(source: Path, var: Path) -> PostgresServer:
    """Put the stopped cluster of another installation's folder under `var`."""
    _copy(source / "secrets", var / "secrets")
    _copy(source / "postgres", var / "postgres")
    server = PostgresServer(var)
    server.ensure()
    return server


def home() -> Path:
    """Return this user's folder for files that tests keep on this machine."""
    folder = Path(tempfile.gettempdir()) / f"rftweb-tests-{os.geteuid()}"
    folders.make_private(folder)
    return folder


def _cached() -> Path:
    """Return the folder of the cluster for this tree's migrations; create it if it is missing."""
    folder = home() / _key()
    with locked(home() / "lock"):
        _remove_unused(home())
        if not (folder / "kept").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder)
    os.utime(folder)
    return folder


def _key() -> str:
    """Digest what decides the cluster's content: migrations, views, pinned packages, the server."""
    digest = hashlib.sha256(str(postgres_binaries(None)["postgres"]).encode())
    files = [path for pattern in DECISIVE for path in sorted(ROOT.glob(pattern))]
    for path in (*files, ROOT / "requirements" / "base.lock", Path(__file__)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_unused(kept: Path) -> None:
    """Remove clusters of other trees that were not used for some days."""
    oldest = time.time() - UNUSED_DAYS * 86_400
    for folder in kept.iterdir():
        if folder.is_dir() and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def _make(folder: Path) -> None:
    """Make, migrate and stop a cluster; rename it at the end, so that no incomplete one
    is copied.
    """
    var = folder / "draft"
    var.mkdir(parents=True)
    server = PostgresServer(var)
    server.ensure()
    process = server.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server.wait_ready(process)
        environment = {**os.environ, "DATABASE_URL": server.url, "RFTWEB_VAR": str(var)}
        command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--noinput", "-v", "0"]
        subprocess.run(command, env=environment, check=True, timeout=600)
    finally:
        server.stop(process)
    var.rename(folder / "kept")


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its owners and modes; cp shares blocks where the file system can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)
