"""A worker that is told to stop ends its slice at once, though only its parent gets the signal."""

import multiprocessing
import time

import pytest
from celery.signals import worker_shutting_down

from apps.streaming import wakeups
from workers import stop_request
from workers.time_slices import run_slice


@pytest.fixture(autouse=True)
def not_asked():
    stop_request.forget_stop()
    yield
    stop_request.forget_stop()


def hears(ready) -> None:
    ready.set()
    ends = time.monotonic() + 60
    while not stop_request.is_asked():
        if time.monotonic() > ends:
            raise SystemExit("never heard")
        time.sleep(0.01)


def test_child_process_receives_its_parents_stop_request():
    forked = multiprocessing.get_context("fork")
    ready = forked.Event()
    child = forked.Process(target=hears, args=(ready,))
    child.start()
    assert ready.wait(60) and not stop_request.is_asked()
    worker_shutting_down.send(sender="worker", sig="SIGTERM", how="Warm", exitcode=0)
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.django_db
def test_slice_ends_on_a_stop_request_and_wakes_no_other(run, settings, monkeypatch):
    settings.SLICE_SECONDS = 300
    rung = []
    turns = []
    monkeypatch.setattr(wakeups, "send", rung.append)

    def serve() -> bool:
        turns.append(1)
        if len(turns) == 3:
            stop_request.request_stop()
        return True

    run_slice("score", serve)
    assert (len(turns), rung) == (3, [])
