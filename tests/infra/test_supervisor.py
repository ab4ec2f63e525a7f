"""`manage.py up` with the embedded services: restarts, ordered stop, no processes left."""

import os
import signal
import socket
import subprocess
import sys

import psycopg
import pytest

from rftweb.embedded import PostgresServer, ValkeyServer
from rftweb.supervisor import StackFailed, Supervisor, leftovers
from rftweb.supervisor.record import AlreadyRunning
from tests.clusters import copy_migrated_cluster

SERVICES = ("postgres", "valkey")


@pytest.fixture
def stack(var):
    copy_migrated_cluster(var)
    with Supervisor(var, roles=SERVICES, quiet=True) as stack:
        yield stack


def survivors(var) -> set[int]:
    """Return all processes of this installation that are still alive."""
    marked = leftovers.find_marked_processes(leftovers.marker_prefix(var))
    return marked | PostgresServer(var).processes() | ValkeyServer(var).processes()


def log_of(var) -> str:
    return (var / "log" / "supervisor.log").read_text()


def test_status_record_has_the_ids_of_the_service_processes(stack):
    assert stack.pid("postgres") in PostgresServer(stack.var).processes()
    assert {stack.pid("valkey")} == ValkeyServer(stack.var).processes()


def test_killed_service_is_restarted_and_keeps_its_rows(stack):
    url = PostgresServer(stack.var).url
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    for name in SERVICES:
        stack.wait_restarted(name, since=stack.kill(name), stall_s=180)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


def test_supervisor_stops_cleanly_when_requested(stack):
    assert stack.stop() == 0
    record = stack.status()
    assert (record["state"], record["alive"]) == ("stopped", False)
    assert not survivors(stack.var)
    assert "shut down" in (stack.var / "log" / "postgres.log").read_text()


def test_no_process_survives_sigkill_of_the_supervisor(stack, eventually):
    stack.process.kill()
    stack.process.wait()
    eventually(lambda: not survivors(stack.var))


def test_everything_stops_when_the_process_holding_the_handle_is_killed(var, eventually):
    script = (
        f"from rftweb.supervisor import Supervisor; import time\nwith Supervisor({str(var)!r},"
        " roles=['valkey'], quiet=True) as stack: print('holding', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert "holding\n" in iter(holder.stdout.readline, "")
        assert survivors(var)
        holder.kill()
    eventually(lambda: not survivors(var))


def test_leftover_processes_of_a_dead_supervisor_are_killed_before_a_new_start(var, eventually):
    environment = {**os.environ, leftovers.MARKER: leftovers.marker_prefix(var) + "gone"}
    orphan = subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True)
    eventually(lambda: orphan.pid in leftovers.find_marked_processes(leftovers.marker_prefix(var)))
    with Supervisor(var, roles=("valkey",), quiet=True):
        assert orphan.wait(60) == -signal.SIGKILL
    assert "left-over" in log_of(var)


def test_second_supervisor_on_the_same_folder_is_refused(stack):
    with pytest.raises(AlreadyRunning):
        Supervisor(stack.var, roles=SERVICES).start()


def test_service_that_cannot_start_stops_the_supervisor_with_the_reason(var):
    with pytest.raises(StackFailed, match="ended with code 1"):
        Supervisor(
            var, roles=("postgres",), env={"RFTWEB_PG_BIN": "/nonexistent"}, quiet=True
        ).__enter__()
    assert "RFTWEB_PG_BIN names '/nonexistent'" in log_of(var)


def test_port_in_use_is_reported_in_the_log(var):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackFailed):
            Supervisor(
                var, roles=("web",), port=port, quiet=True, options=["--no-migrate"]
            ).__enter__()
    assert f"port {port} cannot be used" in log_of(var)


def test_sigint_stops_the_supervisor_cleanly(stack):
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(90) == 0
