"""A late control plane is reported without its help: the web process opens and sends the alert."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.models.functions import Now

from apps.alerts.evaluating import look_at_control, look_at_runs
from apps.alerts.models import Alert, Channel, Delivery
from apps.runs import control_plane
from apps.runs.models import Worker, after
from rftweb.control_watch import ControlWatch
from tests.alerts.conftest import stall
from tests.alerts.sinks import receiver


@pytest.fixture
def hook(settings):
    with receiver() as took:
        settings.ENVIRONMENT_HOSTS = [f"127.0.0.1:{took.port}"]
        yield took


def sweep_was(seconds_ago: float) -> None:
    Worker.every.update(started_at=after(-3_600))
    Worker.every.filter(role="control").update(swept_at=after(-seconds_ago))


def test_delay_counts_from_the_last_sweep_or_the_start_of_the_oldest_process(healthy):
    assert control_plane.read_control_plane().behind_s < 60
    sweep_was(200)
    assert 200 <= control_plane.read_control_plane().behind_s < 260
    Worker.every.update(started_at=Now())  # all were restarted: they have a minute
    assert not control_plane.read_control_plane().is_behind


def test_live_workers_are_counted_by_heartbeat(healthy):
    plane = control_plane.read_control_plane()
    assert (plane.workers, plane.beats) == (1, 1)
    Worker.every.filter(role="control").update(heartbeat_at=after(-100))
    assert control_plane.read_control_plane().workers == 0


def test_control_plane_check_opens_and_closes_only_its_own_alert(healthy):
    sweep_was(200)
    stall(healthy)
    assert look_at_control() == {"opened": 1}
    assert look_at_control() == {}
    assert look_at_runs() == {"opened": 1}  # no_progress
    assert look_at_control() == {}
    assert set(Alert.objects.open().values_list("rule", flat=True)) == {
        "control_worker_late",
        "no_progress",
    }
    sweep_was(1)
    assert look_at_control() == {"closed": 1}


@pytest.mark.django_db(transaction=True)
def test_web_processes_open_the_alert_once_and_send_it_without_workers(healthy, hook, alice):
    Channel.make(healthy.project, "webhook", hook.address, alice)
    sweep_was(200)

    def watch(_: int) -> None:
        one = ControlWatch()
        try:
            one.step()
            one.join(60)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as processes:
        list(processes.map(watch, range(2)))
    assert Alert.objects.get().rule == "control_worker_late"
    assert Delivery.objects.get().state == Delivery.State.SENT and len(hook.calls) == 1


def test_watch_does_nothing_for_a_healthy_control_plane(healthy):
    sweep_was(5)
    watch = ControlWatch()
    watch.step()
    assert watch._acting is None and not Alert.objects.exists()
