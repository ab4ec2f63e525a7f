"""A run whose trainer has several processes, at one worker with other runs."""

import pytest

from apps.dashboard.reconciliation import reconcile
from apps.runs.models import Run, TrainStep, Usage
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers.trainer import loop as loop_module

TWO = {"processes": 2}


@pytest.fixture
def elsewhere(settings, rendezvous, monkeypatch):
    """Configure a second process on another machine, and unload runs without work."""
    settings.TRAINER_RENDEZVOUS = rendezvous
    settings.TRAINER_RANKS_HERE = 1
    settings.TRAINER_TURN_SECONDS = 0
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 0.0)


def test_run_with_two_processes_has_the_worker_alone_and_all_runs_get_turns(
    tiny_run, new_loop, elsewhere
):
    shared, *others = tiny_run(steps=3, trainer=TWO), tiny_run(steps=3), tiny_run(steps=3)
    runs = [shared, *others]
    loop = new_loop()
    for _ in range(12):
        for run in runs:
            feed(run)
        loop.serve()
        assert shared.pk not in loop.run_trainers or len(loop.run_trainers) == 1
    assert set(Run.objects.values_list("state", flat=True)) == {Run.State.COMPLETED}
    assert set(shared.experiences.values_list("uses", flat=True)) == {1}


def test_the_number_of_processes_may_change_between_two_updates(tiny_run, new_loop, elsewhere):
    alone = train_to_the_end(new_loop(), tiny_run())
    run = tiny_run()
    loop = new_loop()
    seen = []
    for processes, sharding in ((1, "ddp"), (2, "fsdp2"), (2, "ddp"), (1, "ddp")):
        run.refresh_from_db()
        run.change_config(None, trainer={"processes": processes, "sharding": sharding})
        feed(run)
        assert loop.serve()
        spec = loop.run_trainers[run.pk].host.trainer.spec
        seen.append((spec.processes, spec.sharding))
    assert seen == [(1, "ddp"), (2, "fsdp2"), (2, "ddp"), (1, "ddp")]
    run = train_to_the_end(loop, run)
    assert run.state == Run.State.COMPLETED
    assert set(run.steps.values_list("state", flat=True)) == {TrainStep.State.COMMITTED}
    losses = [
        list(one.metrics.filter(name="loss").order_by("step").values_list("value", flat=True))
        for one in (run, alone)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    violations = {name: found for name, found in reconcile().items() if found}
    assert set(violations) <= {"engines served what was published"}  # this test has no engine


def test_cpu_time_of_all_processes_is_recorded(tiny_run, new_loop, elsewhere):
    run = tiny_run(trainer=TWO)
    loop = new_loop()
    feed(run)
    assert loop.serve()
    host = loop.run_trainers[run.pk].host
    assert host.seconds_of_others > 0
    assert Usage.objects.get(run=run, kind="trainer.cpu_s").amount > host.seconds_of_others
    assert "2 processes, ddp" in loop.lease_renewer.doing
