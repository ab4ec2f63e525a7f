"""A dead worker differs from a drained, stopped or replaced one; a fenced one is shown with the
user and the reason.
"""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from apps.alerts.evaluating import look_at_runs
from apps.alerts.models import Alert
from apps.alerts.processes import lost
from apps.rewards.fencing import quarantine
from apps.runs.models import Run, Worker
from workers.coordinator import bury_silent_workers

pytestmark = pytest.mark.django_db


def worker(number: int, silent_s: float = 0, host: str = "lab", **fields: object) -> Worker:
    made = Worker.objects.create(
        key=f"explorer@{host}:{number}:2", role="explorer", host=host, pid=number
    )
    said = {
        "heartbeat_at": Now() - timedelta(seconds=silent_s),
        "started_at": Now() - timedelta(seconds=3_000),
    } | fields
    Worker.objects.filter(pk=made.pk).update(**said)
    made.refresh_from_db()
    return made


def started(seconds_ago: float) -> dict:
    return {"started_at": Now() - timedelta(seconds=seconds_ago)}


def keys() -> list[str]:
    return [one.key for one in lost()]


def test_silent_worker_stays_lost_after_bury_silent_workers(db):
    dead = worker(1, silent_s=90)
    _ = worker(2)
    assert [(one.key, one.is_dead, one.others) for one in lost()] == [(dead.key, True, 1)]
    assert bury_silent_workers() == 1
    assert [(one.key, one.since) for one in lost()] == [(dead.key, dead.heartbeat_at)]


def test_worker_that_sends_a_heartbeat_again_is_not_lost(db):
    dead = worker(1, silent_s=90)
    bury_silent_workers()
    dead.beat()
    assert keys() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"order": "drain"},
        {"order": "quarantine", "ordered_at": Now()},
        {"stopped_at": Now(), "stopped_reason": "it was stopped"},
    ],
)
def test_silent_worker_that_was_drained_quarantined_or_stopped_is_not_lost(db, fields):
    worker(1, silent_s=90, **fields), worker(2)
    assert keys() == []


def test_newer_worker_on_the_same_host_replaces_a_lost_one(db):
    older = worker(1, silent_s=200)
    _ = worker(2, silent_s=100)
    worker(3, **started(50))
    assert keys() == [older.key]
    worker(4, **started(150))
    assert keys() == []


def test_of_workers_that_died_in_turn_only_the_last_is_lost(db):
    worker(1, silent_s=500), worker(2, silent_s=300, **started(450))
    last = worker(3, silent_s=100, **started(290))
    assert keys() == [last.key]
    heir = worker(4, **started(90))
    assert keys() == []
    heir.stop()
    assert keys() == []  # it was stopped, and no worker has died since


def test_older_worker_or_worker_on_another_host_replaces_no_lost_worker(db):
    dead = worker(1, silent_s=90)
    worker(2), worker(3, host="elsewhere", **started(10))
    assert keys() == [dead.key]


def test_fenced_worker_is_listed_with_user_and_reason(db, alice):
    fenced = worker(1)
    quarantine(fenced, alice, "its GPU is ailing")
    assert [(one.key, one.is_dead, one.why) for one in lost()] == [
        (fenced.key, False, "by alice: its GPU is ailing")
    ]
    fenced.refresh_from_db()
    fenced.tell(Worker.Order.SERVE, alice)
    assert keys() == []


@pytest.fixture
def long_live(healthy) -> Run:
    Run.objects.filter(pk=healthy.pk).update(state_since=Now() - timedelta(seconds=600))
    return healthy


def open_words() -> list[str]:
    return list(Alert.objects.open().order_by("pk").values_list("words", flat=True))


def test_alert_opens_when_one_of_several_workers_dies_and_closes_on_replacement(
    long_live,
):
    dead = worker(1, silent_s=90, host="elsewhere")
    assert look_at_runs() == {"opened": 1}
    assert [alert.rule for alert in Alert.objects.open()] == ["lost_worker"]
    assert dead.key in open_words()[0] and "1 other is running" in open_words()[0]
    assert look_at_runs() == {}
    worker(2, host="elsewhere", **started(5))
    assert look_at_runs() == {"closed": 1} and open_words() == []


def test_the_alert_of_a_quarantined_worker_closes_when_it_is_stopped(long_live, alice):
    fenced = worker(1)
    quarantine(fenced, alice, "it is hot")
    assert (
        look_at_runs() == {"opened": 1}
        and "by alice: it is hot. 1 other is running." in open_words()[0]
    )
    fenced.stop()
    assert look_at_runs() == {"closed": 1}
