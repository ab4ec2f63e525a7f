"""The scorer's and the refiner's turns, and the slice around them, on real rows and a real
grader.
"""

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
    """Each test's database holds its own worker rows."""
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
        if line["event"] in ("scored", "refined")
    }
    assert said == {"scored": (run.slug, groups), "refined": (run.slug, groups)}


def statements(serve) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert serve()
    return len(captured)


def test_a_turn_takes_the_same_statements_for_any_number_of_groups(run, finish, monkeypatch):
    scorer.serve()
    refiner.serve()  # both have registered, and done what time makes due
    for name in ("SOON_SECONDS", "SAID_SECONDS"):
        monkeypatch.setattr(f"workers.time_slices.{name}", 3600.0)
    finish(run, ["12345", "54321"], groups=1)
    few = statements(scorer.serve), statements(refiner.serve)
    finish(run, ["12345", "54321"], groups=3)
    many = statements(scorer.serve), statements(refiner.serve)
    assert many == few


def test_the_first_look_after_work_leaves_all_but_the_main_work_for_the_next():
    aside = SideWork()
    assert aside.is_due(is_busy=True)
    assert not aside.is_due(is_busy=False)
    assert aside.is_due(is_busy=False)


def test_a_worker_that_is_always_busy_does_the_rest_now_and_then(monkeypatch):
    monkeypatch.setattr("workers.time_slices.SOON_SECONDS", 0.0)
    aside = SideWork()
    assert all(aside.is_due(is_busy=True) for _ in range(3))


def test_a_station_without_work_says_so(run):
    assert not scorer.serve() and not refiner.serve()


def test_an_unknown_scorer_is_null_and_the_group_is_dropped(new_run, finish):
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
    """A worker of this test's own that may be told to end."""
    monkeypatch.setattr(stop_request, "_flag", bytearray(1))


def test_a_slice_without_a_live_run_serves_nothing_and_lasts(db, settings, ending):
    settings.SLICE_SECONDS = 300
    looks = []

    def has_more() -> bool:
        looks.append(1)
        if len(looks) == 2:
            stop_request.request_stop()
        worker_notifications.notify_workers(
            "score"
        )  # a run is started, say: it looks again at once
        return False

    def never() -> bool:
        raise AssertionError("nothing to serve")

    run_slice("score", never, has_more)
    assert len(looks) == 2


def test_an_ending_worker_leaves_its_slice_and_sends_no_successor(run, settings, ending):
    settings.SLICE_SECONDS = 300
    worker_notifications.connection().delete("score")

    def serve() -> bool:
        stop_request.request_stop()
        return True

    run_slice("score", serve)
    assert wakeups.jobs_in("score") == []


@pytest.mark.django_db(transaction=True)
def test_a_slice_outlasts_a_database_that_is_away(run, settings, ending):
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


def test_a_process_registers_once(db):
    assert register_worker(Worker.Role.SCORER) == register_worker(Worker.Role.SCORER)


@pytest.mark.parametrize(
    "job, role", [(scorer.score, Worker.Role.SCORER), (refiner.refine_slice, Worker.Role.REFINER)]
)
def test_its_first_job_registers_it_though_no_run_is_live(db, settings, job, role):
    settings.SLICE_SECONDS = 0
    job()
    assert Worker.objects.get().role == role


def test_a_worker_tells_its_device_and_the_versions_of_its_libraries(db):
    score_worker = scorer.own_worker_row()
    assert score_worker.device
    assert score_worker.details["torch"] == version("torch")
    assert "math-verify" in score_worker.details


def test_a_worker_silent_for_two_leases_is_marked_stopped(db):
    worker = register_worker(Worker.Role.SCORER)
    Worker.objects.update(heartbeat_at="2020-01-01T00:00Z")
    assert coordinator.bury_silent_workers() == 1
    worker.refresh_from_db()
    assert worker.stopped_at is not None
