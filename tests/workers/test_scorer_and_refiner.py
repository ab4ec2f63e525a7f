"""Turns of scorer and refiner, and their time slices, on real rows with a real grader."""

from importlib.metadata import version

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from apps.buffer.models import Experience
from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.runs.models import Worker
from apps.streaming import wakeups, worker_notifications
from workers import coordinator, refiner, scorer, scorer_dispatch, stop_request
from workers.time_slices import SideWork, register_worker, run_slice


@pytest.fixture(autouse=True)
def fresh_workers():
    """Clear cached worker rows, since each test has its own."""
    for worker in (scorer, refiner):
        worker.own_worker_row.cache_clear()
    yield
    if scorer_dispatch.grader.cache_info().currsize:
        scorer_dispatch.grader().stop()
        scorer_dispatch.grader.cache_clear()


def test_finished_rollouts_are_scored_and_refined(run, finish):
    finish(run, ["12345", "54321"])
    assert scorer.serve() and refiner.serve()
    assert sorted(Reward.objects.values_list("value", flat=True)) == [0.0, 1.0]
    assert Group.objects.get().state == Group.State.ADMITTED and Experience.objects.count() == 2


def test_the_log_names_run_and_groups(run, finish, caplog):
    groups = [group.pk for group in finish(run, ["12345", "54321"], groups=2)]
    with caplog.at_level("INFO"):
        scorer.serve()
        refiner.serve()
    lines = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    said = {
        line["event"]: (line["run"], line["groups"])
        for line in lines
        if line["event"] in ("groups_scored", "groups_refined")
    }
    assert said == {"groups_scored": (run.slug, groups), "groups_refined": (run.slug, groups)}


def statements(serve) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert serve()
    return len(captured)


def test_number_of_queries_does_not_depend_on_the_number_of_groups(run, finish, monkeypatch):
    scorer.serve()
    refiner.serve()  # both have registered, and done their periodic work
    for name in ("SOON_SECONDS", "SAID_SECONDS"):
        monkeypatch.setattr(f"workers.time_slices.{name}", 3600.0)
    finish(run, ["12345", "54321"], groups=1)
    few = statements(scorer.serve), statements(refiner.serve)
    finish(run, ["12345", "54321"], groups=3)
    many = statements(scorer.serve), statements(refiner.serve)
    assert many == few


def test_side_work_is_skipped_once_after_main_work():
    aside = SideWork()
    assert aside.is_due(is_busy=True)
    assert not aside.is_due(is_busy=False)
    assert aside.is_due(is_busy=False)


def test_busy_worker_does_side_work_from_time_to_time(monkeypatch):
    monkeypatch.setattr("workers.time_slices.SOON_SECONDS", 0.0)
    aside = SideWork()
    assert all(aside.is_due(is_busy=True) for _ in range(3))


def test_scorer_and_refiner_without_work_return_false(run):
    assert not scorer.serve() and not refiner.serve()


def test_unknown_scorer_gives_null_and_the_group_is_dropped(new_run, finish):
    finish(new_run(rewards=[{"scorer": "nobody"}]), ["12345"])
    scorer.serve()
    refiner.serve()
    group = Group.objects.get()
    assert group.state == Group.State.DROPPED and "0 of 2 rollouts have a reward" in group.reason
    assert set(Reward.objects.values_list("value", flat=True)) == {None}


def test_a_paused_run_is_not_scored(run, finish):
    finish(run)
    run.pause()
    assert not scorer.serve()


@pytest.fixture
def ending(monkeypatch):
    """Give this test its own stop flag, so that it can stop the worker."""
    monkeypatch.setattr(stop_request, "_flag", bytearray(1))


def test_slice_without_a_live_run_serves_nothing_and_continues(db, settings, ending):
    settings.SLICE_SECONDS = 300
    looks = []

    def has_more() -> bool:
        looks.append(1)
        if len(looks) == 2:
            stop_request.request_stop()
        worker_notifications.notify_workers(
            "score"
        )  # as when a run is started: the worker looks again at once
        return False

    def never() -> bool:
        raise AssertionError("nothing to serve")

    run_slice("score", never, has_more)
    assert len(looks) == 2


def test_stopping_worker_ends_its_slice_and_schedules_no_next_one(run, settings, ending):
    settings.SLICE_SECONDS = 300
    worker_notifications.connection().delete("score")

    def serve() -> bool:
        stop_request.request_stop()
        return True

    run_slice("score", serve)
    assert wakeups.jobs_in("score") == []


@pytest.mark.django_db(transaction=True)
def test_slice_survives_a_lost_database_connection(run, settings, ending):
    settings.SLICE_SECONDS = 300
    looks = []

    def serve() -> bool:
        looks.append(1)
        if len(looks) == 1:
            raise OperationalError("the connection is lost")
        stop_request.request_stop()
        return True

    run_slice("score", serve)
    assert len(looks) == 2


def test_process_is_registered_once(db):
    assert register_worker(Worker.Role.SCORER) == register_worker(Worker.Role.SCORER)


@pytest.mark.parametrize(
    "job, role", [(scorer.score, Worker.Role.SCORER), (refiner.refine_slice, Worker.Role.REFINER)]
)
def test_first_job_registers_the_worker_without_a_live_run(db, settings, job, role):
    settings.SLICE_SECONDS = 0
    job()
    assert Worker.objects.get().role == role


def test_worker_reports_its_device_and_library_versions(db):
    score_worker = scorer.own_worker_row()
    assert score_worker.device
    assert score_worker.details["torch"] == version("torch")
    assert "math-verify" in score_worker.details


def test_worker_without_heartbeat_for_two_leases_is_marked_stopped(db):
    worker = register_worker(Worker.Role.SCORER)
    Worker.objects.update(heartbeat_at="2020-01-01T00:00Z")
    assert coordinator.bury_silent_workers() == 1
    worker.refresh_from_db()
    assert worker.stopped_at is not None
