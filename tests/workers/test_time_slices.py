"""A worker without work looks for some less and less often, and at once when it is notified."""

import threading
import time
from collections.abc import Iterator

import pytest

from apps.streaming import wakeups, worker_notifications
from workers import stop_request, time_slices
from workers.time_slices import IDLE_SECONDS, RESTING_SECONDS, run_slice, wait_for_work

pytestmark = pytest.mark.django_db


@pytest.fixture
def idle_slice(settings, monkeypatch) -> Iterator:
    """Return a function that runs a slice with these answers and returns its pauses."""
    settings.SLICE_SECONDS = 300
    settings.LEASE_SECONDS = 30
    monkeypatch.setattr(wakeups, "send", lambda queue: True)
    monkeypatch.setattr(time_slices, "_pauses", {})

    def run(*was_notified: bool) -> list[float]:
        answers = list(was_notified)
        pauses = []

        def wait(queue: str, seconds: float) -> bool:
            pauses.append(seconds)
            if len(pauses) == len(answers):
                stop_request.request_stop()
            return answers[len(pauses) - 1]

        monkeypatch.setattr(time_slices, "wait_for_work", wait)
        stop_request.forget_stop()
        run_slice("score", lambda: False)
        return pauses

    yield run
    stop_request.forget_stop()


def test_the_pauses_of_an_idle_worker_grow_and_stay_long_in_its_next_slice(idle_slice):
    grown = idle_slice(*[False] * 6)
    assert (grown[0], grown[-1]) == (IDLE_SECONDS, RESTING_SECONDS)
    assert grown == sorted(grown)
    assert idle_slice(False, False) == [RESTING_SECONDS, RESTING_SECONDS]


def test_a_stop_request_ends_a_long_pause():
    """This test takes 0.3 s."""
    worker_notifications.connection().delete("wakeup:score")
    stop = threading.Timer(0.2, stop_request.request_stop)
    stop.start()
    began = time.monotonic()
    try:
        assert not wait_for_work("score", 60.0)
    finally:
        stop.join()
        stop_request.forget_stop()
    assert time.monotonic() - began < 30.0


def test_a_notification_ends_a_long_pause():
    worker_notifications.notify_workers("score")
    assert wait_for_work("score", 60.0)


def test_pauses_are_short_again_after_a_notification(idle_slice):
    idle_slice(*[False] * 6)
    assert idle_slice(False, True, False) == [RESTING_SECONDS, RESTING_SECONDS, IDLE_SECONDS]


def test_after_work_the_worker_serves_again_before_it_checks_for_live_runs(
    run, settings, monkeypatch, django_assert_num_queries
):
    settings.SLICE_SECONDS = 300
    monkeypatch.setattr(wakeups, "send", lambda queue: True)
    monkeypatch.setattr(time_slices, "_here", {})  # no heartbeat among the queries
    looks = []

    def serve() -> bool:
        looks.append(1)
        if len(looks) == 5:
            stop_request.request_stop()
        return True

    stop_request.forget_stop()
    try:
        with django_assert_num_queries(1):
            run_slice("score", serve)
    finally:
        stop_request.forget_stop()
    assert len(looks) == 5
