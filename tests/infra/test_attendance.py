"""Web processes and beat are registered as workers while they run, and unregister when they stop;
with real processes and a real database.
"""

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest
from celery import Celery
from django.conf import settings
from django.db import IntegrityError, connection
from django.utils import timezone

from apps.alerts.models import Channel
from apps.runs.models import Worker
from rftweb.settings import broker_url
from rftweb.supervisor.roles import Plan, worker_program
from tests.streaming.conftest import own_redis  # noqa: F401
from tests.web_process import WebProcess, _url_of
from workers.coordinator import bury_silent_workers, sweep_leases

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def web() -> Iterator[WebProcess]:
    process = WebProcess(has_row=True)
    process.start()
    yield process
    process.end()


@contextmanager
def celery(redis, *said: str, **more: str) -> Iterator[subprocess.Popen]:
    """Start a Celery program on this test's database; `more` is added to its environment."""
    environment = {
        **os.environ,
        **more,
        "DATABASE_URL": _url_of(connection.settings_dict),
        "REDIS_URL": redis.url,
    }
    command = [sys.executable, "-m", "celery", "-q", "-A", "rftweb", *said]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment | {"RFTWEB_VAR": str(settings.VAR)}
    )
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def beat(db, own_redis, tmp_path) -> Iterator[subprocess.Popen]:
    with celery(own_redis, "beat", "--pidfile", str(tmp_path / "pid")) as process:
        yield process


def row(role: str) -> Worker | None:
    return Worker.every.filter(role=role).first()


@contextmanager
def database_unavailable() -> Iterator[None]:
    """Make the database unavailable to everybody but this test: close connections and refuse new
    ones.
    """
    name = connection.settings_dict["NAME"]
    url = _url_of(connection.settings_dict).rpartition("/")[0] + "/postgres"
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                [mine] = cursor.fetchone()
            cut = (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid"
                " <> %s"
            )
            other.execute(cut, [name, mine])
            yield
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def answer(web: WebProcess) -> int:
    asked = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    asked.request("GET", "/accounts/login/")
    return asked.getresponse().status


def test_web_process_reports_what_it_serves_and_that_it_stopped(web, eventually):
    found = eventually(lambda: row("web"))
    eventually(
        lambda: (
            "sockets open" in row("web").doing and row("web").metrics.get("cpu_share") is not None
        )
    )
    assert (found.pid, found.standing) == (web.process.pid, "alive")
    assert {"code", "python", "django"} <= set(found.details) and row("web").metrics[
        "rss_bytes"
    ] > 2**20
    web.stop()
    assert (row("web").standing, row("web").stopped_reason) == ("stopped", "it was stopped")


@pytest.mark.nightly
def test_web_process_continues_when_the_database_is_back(web, eventually):
    eventually(lambda: row("web"))
    with database_unavailable():
        before = row("web").heartbeat_at
        assert answer(web) in (200, 503)  # it responds in any case
    eventually(lambda: row("web").heartbeat_at > before)
    eventually(lambda: answer(web) == 200)
    assert Worker.every.filter(role="web").count() == 1


def test_killed_web_process_is_marked_as_dead(web, eventually):
    eventually(lambda: row("web"))
    web.kill()
    Worker.every.update(
        heartbeat_at=timezone.now() - timedelta(seconds=2 * settings.LEASE_SECONDS + 1)
    )
    assert bury_silent_workers() == 1 and row("web").standing == "dead"


@pytest.mark.nightly
def test_beat_reports_its_schedule_failed_sends_and_that_it_stopped(beat, own_redis, eventually):
    eventually(
        lambda: (
            (found := row("beat"))
            and found.doing.startswith("schedules ")
            and "none" not in found.doing
        )
    )
    own_redis.kill()
    eventually(lambda: "none could be sent for" in row("beat").doing)
    own_redis.start()
    eventually(lambda: "none" not in row("beat").doing)
    beat.terminate()
    beat.wait(60)
    assert row("beat").standing == "stopped"


def test_worker_registers_without_beat_and_unregisters_when_stopped(own_redis, eventually):
    with celery(own_redis, "worker", "-P", "prefork", "-c", "1", "-Q", "refine") as refiner:
        eventually(lambda: row("refiner"))
        refiner.terminate()
        refiner.wait(60)
    assert (row("refiner").standing, row("refiner").stopped_reason) == ("stopped", "it was stopped")


class SlowHook(BaseHTTPRequestHandler):
    """Accept a request, and respond only when the test allows it."""

    def do_POST(self) -> None:
        self.server.called.set()
        self.server.answers.wait(60)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing into the output of the test."""


@pytest.fixture
def slow_hook() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowHook)
    server.called = threading.Event()
    server.answers = threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.answers.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_slow_delivery_does_not_delay_a_sweep(project, alice, slow_hook, own_redis, eventually):
    host = f"127.0.0.1:{slow_hook.server_address[1]}"
    channel = Channel.make(project, "webhook", f"http://{host}/", alice)
    listed = {"RFTWEB_ENVIRONMENT_HOSTS": host}
    command = worker_program(Plan(var=settings.VAR), "control", "control", None).prepare()[0]
    with (
        Celery(broker=broker_url(own_redis.url), set_as_current=False) as sender,
        celery(own_redis, *command[command.index("worker") :], **listed),
    ):
        eventually(lambda: row("control"))

        def sweeps_meanwhile() -> bool:
            """Return whether a sweep finishes while a delivery waits up to ten seconds for its
            response.
            """
            slow_hook.called.clear()
            delivery = channel.test()
            sender.send_task("deliver_alerts", queue="control")
            assert slow_hook.called.wait(60)
            Worker.every.update(swept_at=None)
            sender.send_task("sweep", queue="control")
            eventually(lambda: row("control").swept_at)
            delivery.refresh_from_db()
            return delivery.answer == ""

        # Where the machine is slow, the delivery may have been given up first: then once more.
        assert any(sweeps_meanwhile() for _ in range(3))


def test_finished_sweep_is_recorded_in_the_row_of_beat():
    beat = Worker.every.create(key="beat@here:1:1", role="beat", host="here", pid=1)
    Worker.every.filter(pk=beat.pk).update(started_at=timezone.now() - timedelta(minutes=5))
    beat.refresh_from_db()
    assert beat.sweep_is_late
    sweep_leases()
    beat.refresh_from_db()
    assert beat.swept_at and not beat.sweep_is_late


@pytest.mark.parametrize("role", ["web", "beat", "control"])
def test_process_that_serves_no_run_is_not_a_worker_and_takes_no_order(role, admin):
    made = Worker.every.create(key=f"{role}@here:1:1", role=role, host="here", pid=1)
    assert not Worker.objects.exists() and not made.is_of_runs
    with pytest.raises(IntegrityError):
        made.tell(Worker.Order.DRAIN, admin)
