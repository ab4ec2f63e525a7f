"""A trainer loads the runs that have work; an unloaded run leaves a checkpoint."""

from collections import Counter

import pytest
from django.db import connection

from apps.accounts.models import Project
from apps.buffer.models import Experience
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep
from tests import profiles
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers import stop_request
from workers.trainer import loop as loop_module
from workers.trainer.batch_queue import BatchQueue
from workers.trainer.run_trainer import RunTrainer

RARELY = {"every": 100}
CUT = {"micro_batch_rows": 2, "warmup_steps": 0, "learning_rate": 1e-3}


@pytest.fixture
def little_room(settings):
    """Let at most two runs stay loaded, however much memory there is."""
    settings.TRAINERS_PER_WORKER = 2
    settings.RESIDENT_MEMORY_MB = 0
    return settings


@pytest.fixture
def built(monkeypatch) -> Counter:
    """Count how often a trainer was opened, by the run's id."""
    counted = Counter()
    real = RunTrainer.open

    def count(trainer) -> None:
        counted[trainer.run.pk] += 1
        real(trainer)

    monkeypatch.setattr(RunTrainer, "open", count)
    return counted


@pytest.fixture
def replayed(monkeypatch) -> list[int]:
    """Return the numbers of all updates that were repeated."""
    numbers = []
    real = RunTrainer._update

    def note(trainer, step, *args):
        if step.state == TrainStep.State.COMMITTED:
            numbers.append(step.number)
        return real(trainer, step, *args)

    monkeypatch.setattr(RunTrainer, "_update", note)
    return numbers


@pytest.fixture
def told_to_stop():
    """Return a function that requests a stop, as Celery's parent process does."""
    yield stop_request.request_stop
    stop_request.forget_stop()


def wait_for_people(run: Run) -> None:
    """Let the run's groups wait for people."""
    opened = Group.open(run, "explorer", 60, run.settings.groups_per_step, run.published_version)
    Group.objects.filter(pk__in=[group.pk for group in opened]).update(
        state=Group.State.WAITING, lease_until=None
    )


def steps_of(runs: list[Run]) -> list[int]:
    known = dict(Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("pk", "step"))
    return [known[run.pk] for run in runs]


def test_runs_that_wait_for_people_occupy_no_slot_that_others_need(
    tiny_run, new_loop, little_room, built
):
    waiting = [tiny_run() for _ in range(9)]
    working = [tiny_run() for _ in range(3)]
    for run in waiting:
        wait_for_people(run)
    loop = new_loop()
    little_room.TRAINER_TURN_SECONDS = 0  # so that the test does not take three turns
    for _ in range(2):
        for run in working:
            feed(run)
        loop.serve()
    assert set(built) == {run.pk for run in working}
    assert steps_of(working) == [2, 2, 2]
    assert set(
        Run.objects.filter(pk__in=[run.pk for run in waiting]).values_list("waiting_on", flat=True)
    ) == {"2 more groups (2 waiting for people)"}


@pytest.mark.slow
@pytest.mark.parametrize("memory_mb", profiles.nightly_but((0, 8192), kept=(0,)))
def test_twelve_runs_with_work_take_turns(tiny_run, new_loop, little_room, built, memory_mb):
    little_room.RESIDENT_MEMORY_MB = memory_mb
    little_room.TRAINER_TURN_SECONDS = 0
    runs = [tiny_run() for _ in range(12)]
    loop = new_loop()
    for turn in (1, 2):
        for run in runs:
            feed(run)
        loop.serve()
        assert steps_of(runs) == [turn] * 12  # no run gets two updates before each has one
    assert len(loop.run_trainers) == (12 if memory_mb else 2)
    assert set(built.values()) == ({1} if memory_mb else {2})


def test_run_without_a_slot_names_the_holders_of_its_own_project_only(
    tiny_run, new_loop, little_room, monkeypatch, alice
):
    holders = [tiny_run() for _ in range(2)]
    left_out = tiny_run()
    loop = new_loop()
    for run in holders:
        feed(run)
    loop.serve()
    foreign = Project.objects.create(slug="other", title="Other")
    Run.objects.filter(pk=holders[0].pk).update(project=foreign)
    for run in [*holders, left_out]:
        feed(run)
    loop.run_trainers[holders[0].pk].run.refresh_from_db()
    loop.serve()
    left_out.refresh_from_db()
    expected = f"a free trainer: 2 of 2 are used by {holders[1].slug} and 1 run of other projects"
    assert (left_out.step, left_out.waiting_on) == (0, expected)
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 0.0)
    assert loop.serve()  # both have finished their work, and one is unloaded
    left_out.refresh_from_db()
    assert (left_out.step, left_out.waiting_on) == (1, "")


def test_each_trainer_is_built_at_most_once_per_turn(
    tiny_run, new_loop, settings, monkeypatch, built
):
    settings.TRAINERS_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 0
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 0.0)
    first = tiny_run()
    second = tiny_run()
    loop = new_loop()
    for _ in range(3):  # each gets work when the other has none
        for run in (first, second):
            feed(run)
            loop.serve()
    assert built == {first.pk: 1, second.pk: 1}
    assert steps_of([first, second]) == [1, 3]
    assert (
        Run.objects.get(pk=first.pk).waiting_on
        == "a free trainer: its last one was built less than 60 s ago"
    )


def test_unloaded_run_replays_nothing_and_reaches_the_same_weights(
    tiny_run, new_loop, settings, monkeypatch, built, replayed
):
    settings.TRAINERS_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 0
    settings.TRAINER_TURN_SECONDS = 0
    alone = train_to_the_end(new_loop(), tiny_run(checkpoints=RARELY))
    shuttled = tiny_run(checkpoints=RARELY)
    other = tiny_run(steps=50)
    loop = new_loop()
    for _ in range(7):
        for run in (shuttled, other):
            feed(run)
        loop.serve()
    shuttled.refresh_from_db()
    assert (shuttled.state, built[shuttled.pk] > 3) == (Run.State.COMPLETED, True)
    assert replayed == []
    assert shuttled.weight_versions.first().fingerprint == alone.weight_versions.first().fingerprint
    assert set(shuttled.experiences.values_list("uses", flat=True)) == {1}


def test_orderly_stop_writes_a_checkpoint_and_a_kill_does_not(tiny_run, new_loop, replayed):
    run = tiny_run(checkpoints=RARELY)
    for _ in range(2):
        loop = new_loop()
        feed(run)
        loop.serve()
        loop.stop()
    run.refresh_from_db()
    assert (run.step, run.checkpoint_step, replayed) == (2, 2, [])
    killed = new_loop()
    feed(run)
    killed.serve()
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    feed(run)
    new_loop().serve()
    run.refresh_from_db()
    assert (run.step, replayed) == (4, [3])


def test_trainer_that_lost_its_run_writes_no_checkpoint(tiny_run, new_loop, settings):
    run = tiny_run(checkpoints=RARELY)
    loop = new_loop()
    feed(run)
    loop.serve()
    Run.objects.filter(pk=run.pk).update(fence=7)
    loop.stop()
    assert not list((settings.WEIGHTS_ROOT / f"run-{run.pk}" / "checkpoints").glob("step-*"))


def in_the_second_micro_batch(monkeypatch, act) -> None:
    """Call `act` during an update, which continues only when the queue was interrupted."""
    raise_if_interrupted = BatchQueue.raise_if_interrupted
    calls = []

    def note(batch_queue) -> None:
        calls.append(batch_queue)
        if len(calls) == 2:
            act()
            connection.close()  # this thread's own connection
            with batch_queue._changed:
                batch_queue._changed.wait_for(lambda: batch_queue._interrupting, 60)
        raise_if_interrupted(batch_queue)

    monkeypatch.setattr(BatchQueue, "raise_if_interrupted", note)


def test_stop_during_an_update_changes_nothing_and_writes_a_checkpoint(
    tiny_run, new_loop, monkeypatch, told_to_stop, replayed
):
    alone = train_to_the_end(new_loop(), tiny_run(checkpoints=RARELY, optimizer=CUT))
    run = tiny_run(checkpoints=RARELY, optimizer=CUT)
    loop = new_loop()
    feed(run)
    loop.serve()
    feed(run)
    with monkeypatch.context() as patch:
        in_the_second_micro_batch(patch, told_to_stop)
        assert not loop.serve()
    loop.stop()
    stop_request.forget_stop()
    run.refresh_from_db()
    assert (run.state, run.step, run.checkpoint_step, run.lease_until) == (
        Run.State.RUNNING,
        1,
        1,
        None,
    )
    assert run.steps.get(number=2).state == TrainStep.State.PLANNED
    run = train_to_the_end(new_loop(), run)
    assert (run.state, replayed) == (Run.State.COMPLETED, [])
    assert run.weight_versions.first().fingerprint == alone.weight_versions.first().fingerprint
    assert set(run.experiences.values_list("uses", flat=True)) == {1}


def test_stopping_a_run_ends_its_update(tiny_run, new_loop, monkeypatch):
    run = tiny_run(optimizer=CUT)
    loop = new_loop()
    feed(run)
    in_the_second_micro_batch(monkeypatch, lambda: Run.objects.get(pk=run.pk).stop())
    assert not loop.serve()
    run.refresh_from_db()
    assert (run.state, run.step, loop.run_trainers, run.lease_until) == (
        Run.State.STOPPED,
        0,
        {},
        None,
    )
    assert set(Experience.objects.values_list("state", "uses")) == {("claimed", 0)}
