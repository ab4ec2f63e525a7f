"""A job goes into its own queue and no other, and waits there at most once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings

from apps.streaming import wakeups, worker_notifications
from rftweb.celery import app
from rftweb.supervisor.roles import POOLS
from tests.profiles import tries
from workers import worker_wakeups
from workers.beat import CoalescingScheduler
from workers.control_worker import JOBS, note_end, note_start, renew_marks

app.loader.import_task_module("workers.coordinator")  # registers the job `sweep`
QUEUES = [queue.name for queue in settings.CELERY_TASK_QUEUES]


@pytest.fixture(autouse=True)
def lengths():
    """Return a function that counts the messages per queue; empty all queues before and after."""
    app.set_current()  # tests of brokers create apps, and the newest app is current
    with app.connection_for_write() as connection:
        client = connection.default_channel.client
        used = [*QUEUES, *map(wakeups.running_key, JOBS), *map(wakeups.request_key, JOBS)]
        client.delete(*used)
        yield lambda: {queue: client.llen(queue) for queue in QUEUES if client.llen(queue)}
        client.delete(*used)


@pytest.mark.parametrize(("job", "route"), settings.CELERY_TASK_ROUTES.items())
def test_job_waits_in_its_own_queue_at_most_once(job, route, lengths):
    for _ in range(3):
        assert wakeups.send(job)
    assert lengths() == {route["queue"]: 1} and wakeups.jobs_in(route["queue"]) == [job]


def test_different_jobs_of_one_queue_can_wait_together(lengths):
    for job in (*JOBS, *JOBS):
        wakeups.send(job)
    assert sorted(wakeups.jobs_in("control")) == sorted(JOBS)


def test_concurrent_senders_send_only_one_message(lengths):
    start = threading.Barrier(8)

    def send(_: int) -> bool:
        start.wait(timeout=30)
        return wakeups.send("sweep")

    with ThreadPoolExecutor(8) as senders:
        assert all(senders.map(send, range(8)))
    assert lengths() == {"control": 1}


def test_beat_does_not_send_a_job_that_is_waiting_or_running(lengths):
    beat = CoalescingScheduler(app, lazy=True)
    entry = beat.Entry("sweep", "sweep", schedule=10.0, app=app)
    beat.apply_async(entry)
    beat.apply_async(entry)
    assert lengths() == {"control": 1}
    worker_notifications.connection().delete("control")  # a worker takes it
    note_start(app.tasks["sweep"])
    beat.apply_async(entry)
    assert lengths() == {}
    note_end(app.tasks["sweep"])


def test_job_requested_while_it_runs_is_sent_again_when_it_ends(lengths):
    note_start(app.tasks["sweep"])
    wakeups.send("sweep")
    wakeups.send("sweep")
    assert lengths() == {}
    note_end(app.tasks["sweep"])
    assert lengths() == {"control": 1}


def test_job_that_was_not_requested_again_is_not_sent_when_it_ends(lengths):
    wakeups.send("sweep")
    worker_notifications.connection().delete("control")  # a worker takes it
    note_start(app.tasks["sweep"])
    note_end(app.tasks["sweep"])
    assert lengths() == {}


def test_renewing_marks_never_marks_a_finished_job_as_running(lengths):
    """A mark that outlives its job keeps the job from being sent for MARK_SECONDS."""
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.is_set():
            renew_marks()

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        for _ in range(tries(300)):
            note_start(app.tasks["sweep"])
            note_end(app.tasks["sweep"])
            assert not worker_notifications.connection().exists(wakeups.running_key("sweep"))
    finally:
        is_over.set()
        renewing.join(timeout=30)


def test_running_mark_of_a_job_expires_within_fifteen_seconds(lengths):
    note_start(app.tasks["sweep"])
    left = worker_notifications.connection().ttl(wakeups.running_key("sweep"))
    note_end(app.tasks["sweep"])
    assert 0 < left <= wakeups.MARK_SECONDS <= 15


def test_message_lost_by_redis_can_be_sent_again(lengths):
    wakeups.send("evaluate_alerts")
    worker_notifications.connection().flushdb()
    wakeups.send("evaluate_alerts")
    assert wakeups.jobs_in("control") == ["evaluate_alerts"]


def test_message_of_another_program_does_not_block_a_job(lengths):
    worker_notifications.connection().lpush("control", "no message of Celery's", '{"headers": {}}')
    wakeups.send("sweep")
    assert "sweep" in wakeups.jobs_in("control")


def test_worker_wakes_its_queue_only_while_it_is_free(lengths, monkeypatch):
    held = {"a slice"}
    monkeypatch.setattr(worker_wakeups.state, "reserved_requests", held)
    worker_wakeups.send_jobs(["explore"])
    assert lengths() == {}
    held.clear()
    worker_wakeups.send_jobs(["explore"])
    worker_wakeups.send_jobs(["explore"])
    assert lengths() == {"explore": 1}


def test_beat_schedule_sets_no_expiry_options(lengths):
    scheduled = settings.CELERY_BEAT_SCHEDULE.values()
    assert all("options" not in entry for entry in scheduled)


def test_control_pool_has_more_threads_than_jobs():
    pool, threads = POOLS["control"]
    assert pool == "threads" and threads > len(JOBS)
