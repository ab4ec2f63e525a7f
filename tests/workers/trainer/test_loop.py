"""Steps from planned batch to published weights, as database rows."""

import gc
import weakref
from pathlib import Path

import pytest
from django.db.models import Count

from apps.buffer.models import Experience, StepItem
from apps.dashboard.reconciliation import reconcile
from apps.policies.manifest import verify_folder
from apps.runs.costs import load_costs
from apps.runs.models import Metric, Run, TrainStep, Usage, WeightVersion, Worker
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers.trainer.run_trainer import RunTrainer


def test_a_step_is_planned_trained_committed_and_published(tiny_run, new_loop):
    run = tiny_run()
    feed(run)
    assert new_loop().serve()
    run.refresh_from_db()
    assert (run.step, run.published_version) == (1, 1)
    step = run.steps.get()
    assert (step.state, step.number, step.version) == (TrainStep.State.COMMITTED, 1, 0)
    assert set(Experience.objects.values_list("state", "uses")) == {("trained", 1)}
    version = run.weight_versions.get(version=1)
    assert (version.state, version.step, version.parent.version) == (
        WeightVersion.State.PUBLISHED,
        1,
        0,
    )
    assert verify_folder(Path(version.folder)).fingerprint == version.fingerprint


def test_run_completes_after_its_planned_steps(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run())
    assert (run.state, run.step, run.published_version) == (Run.State.COMPLETED, 6, 6)
    assert not StepItem.objects.values("experience").annotate(n=Count("pk")).filter(n__gt=1)
    violations = {name: found for name, found in reconcile().items() if found}
    assert set(violations) <= {"engines served what was published"}  # this test has no engine


def test_equal_batches_give_equal_weights(tiny_run, new_loop):
    prints = [
        train_to_the_end(new_loop(), tiny_run()).weight_versions.first().fingerprint
        for _ in range(2)
    ]
    assert prints[0] == prints[1]


def test_weights_are_published_at_the_interval_and_at_the_end(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(steps=5, sync_interval=2))
    assert list(run.weight_versions.order_by("version").values_list("version", "step")) == [
        (0, 0),
        (1, 2),
        (2, 4),
        (3, 5),
    ]


def test_metrics_are_written_with_the_step(tiny_run, new_loop):
    run = tiny_run()
    feed(run)
    new_loop().serve()
    metrics = dict(Metric.objects.filter(run=run, step=1).values_list("name", "value"))
    wanted = {
        "reward_mean",
        "reward_std",
        "reward_rule",
        "reward_machine",
        "success",
        "completion_length",
        "staleness",
        "entropy",
        "behaviour_gap",
        "behaviour_kl",
        "clip_share",
        "grad_norm",
        "learning_rate",
        "loss",
        "tokens",
        "step_seconds",
        "wait_seconds",
        "explore_tokens_per_s",
        "judged_per_s",
        "refined_per_s",
        "groups_ready",
        "groups_under_way",
        "skipped",
        "train_tokens_per_s",
        "dead_groups",
        "starved_people",
        "starved_judging",
        "starved_sampling",
    }
    assert wanted <= metrics.keys()
    assert metrics["reward_mean"] == pytest.approx(
        sum(Experience.objects.values_list("reward", flat=True)) / 8
    )


def test_cpu_usage_of_an_update_is_recorded_with_its_commit(tiny_run, new_loop):
    run = tiny_run()
    feed(run)
    new_loop().serve()
    used = Usage.objects.get(run=run, kind="trainer.cpu_s")
    assert used.amount > 0 and used.worker == Worker.objects.get(role="trainer").key
    recorded = Metric.objects.get(run=run, step=1, name="cost_cpu_hours").value
    assert recorded == pytest.approx(load_costs([run])[run.pk].cpu_hours)


def test_buffer_metrics_are_recorded_when_a_step_is_committed(tiny_run, new_loop):
    run = tiny_run()
    feed(run, groups=3)
    new_loop().serve()
    metrics = dict(Metric.objects.filter(run=run, step=1).values_list("name", "value"))
    assert (metrics["groups_ready"], metrics["groups_under_way"]) == (1, 0)


def test_run_shows_what_its_trainer_waits_for(tiny_run, new_loop):
    run = tiny_run()
    loop = new_loop()
    assert not loop.serve()
    run.refresh_from_db()
    assert run.waiting_on == "2 more groups (no explorer is alive)"
    feed(run)
    loop.serve()
    run.refresh_from_db()
    assert run.waiting_on == ""


def test_run_shows_no_waiting_during_an_update(tiny_run, new_loop, monkeypatch):
    """A trainer that takes over the run reads the previous trainer's message."""
    run = tiny_run()
    said = []
    update = RunTrainer._update
    monkeypatch.setattr(
        RunTrainer,
        "_update",
        lambda *given: said.append(Run.objects.get(pk=run.pk).waiting_on) or update(*given),
    )
    new_loop().serve()
    assert Run.objects.get(pk=run.pk).waiting_on
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    feed(run)
    new_loop().serve()
    assert said == [""]


def test_run_shows_what_its_trainer_waits_for_again_after_a_pause(tiny_run, new_loop, alice):
    run = tiny_run()
    loop = new_loop()
    loop.serve()
    run.refresh_from_db()
    run.pause()
    run.resume()
    assert Run.objects.get(pk=run.pk).waiting_on == ""
    loop.said_at.clear()
    loop.serve()
    assert Run.objects.get(pk=run.pk).waiting_on == "2 more groups (no explorer is alive)"


def test_too_stale_experiences_are_dropped_and_never_trained(tiny_run, new_loop):
    run = tiny_run(max_staleness=1)
    loop = new_loop()
    feed(run, 4)
    loop.serve()
    loop.serve()
    run.refresh_from_db()
    assert run.step == 2
    feed(run, 2, version=0)
    loop.serve()
    run.refresh_from_db()
    assert run.step == 2
    assert set(Experience.objects.filter(state="dropped").values_list("reason", flat=True)) == {
        "stale: older than version 1"
    }
    assert run.groups_dropped == 2


def test_paused_run_is_not_trained_and_stays_loaded(tiny_run, new_loop):
    run = tiny_run()
    loop = new_loop()
    feed(run)
    loop.serve()
    feed(run)
    run.pause()
    assert not loop.serve()
    host = loop.run_trainers[run.pk].host
    run.resume()
    assert loop.serve()
    assert loop.run_trainers[run.pk].host is host


def test_stopped_run_is_unloaded_and_its_lease_released(tiny_run, new_loop):
    run = tiny_run()
    loop = new_loop()
    feed(run)
    loop.serve()
    assert run.pk in loop.run_trainers
    run.stop()
    loop.serve()
    run.refresh_from_db()
    assert not loop.run_trainers
    assert run.lease_until is None


def test_run_leased_by_another_trainer_is_not_trained(tiny_run, new_loop):
    run = tiny_run()
    first = new_loop()
    second = new_loop()
    feed(run)
    first.serve()
    feed(run)
    assert not second.serve()
    assert first.serve()


def test_more_runs_than_slots_all_get_turns(tiny_run, new_loop, settings):
    settings.TRAINERS_PER_WORKER = 1
    settings.TRAINER_TURN_SECONDS = settings.RESIDENT_MEMORY_MB = 0
    runs = [tiny_run(steps=2) for _ in range(3)]
    loop = new_loop()
    for _ in range(12):
        for run in runs:
            feed(run)
        loop.serve()
        assert len(loop.run_trainers) <= 1
    assert set(Run.objects.values_list("state", flat=True)) == {Run.State.COMPLETED}


def test_error_pauses_only_its_own_run_with_the_reason(tiny_run, new_loop, monkeypatch):
    sick = tiny_run()
    well = tiny_run()
    loop = new_loop()
    feed(sick)
    feed(well)
    loop.serve()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop.run_trainers[sick.pk].host, "publish", full)
    feed(sick)
    feed(well)
    loop.serve()
    sick.refresh_from_db()
    well.refresh_from_db()
    assert (sick.state, sick.step) == (Run.State.PAUSED, 1)
    assert "No space left on device" in sick.state_reason
    assert (well.state, well.step) == (Run.State.RUNNING, 2)
    sick.resume()
    assert train_to_the_end(loop, sick).state == Run.State.COMPLETED


def test_three_skipped_updates_in_a_row_pause_the_run(tiny_run, new_loop, monkeypatch):
    monkeypatch.setattr(
        "tests.workers.trainer.feeding.random.Random.gauss",
        lambda self, mean, deviation: float("nan"),
    )
    run = tiny_run()
    loop = new_loop()
    for _ in range(3):
        feed(run)
        loop.serve()
    run.refresh_from_db()
    assert (run.state, run.step) == (Run.State.PAUSED, 3)
    assert "3 consecutive steps were skipped: the loss is not finite" in run.state_reason
    assert {step.skipped for step in run.steps.all()} == {"the loss is not finite"}
    assert set(run.weight_versions.values_list("fingerprint", flat=True)) == {
        run.policy.fingerprint
    }


def test_skips_in_a_row_are_counted_across_trainers(tiny_run, new_loop, monkeypatch):
    run = tiny_run()
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(
                "tests.workers.trainer.feeding.random.Random.gauss",
                lambda self, mean, deviation: float("nan"),
            )
            feed(run)
        loop = new_loop()
        loop.serve()
        loop.stop()
    run.refresh_from_db()
    assert (run.step, run.state) == (2, Run.State.RUNNING)
    assert new_loop()._run_trainer_for(run).host.recorder.skips_in_a_row == 2


def test_completed_run_is_unloaded_at_once(tiny_run, new_loop):
    loop = new_loop()
    run = train_to_the_end(loop, tiny_run(steps=1))
    assert not loop.run_trainers
    assert (run.lease_owner, run.lease_until) == ("", None)


def test_a_completed_run_leaves_no_model_in_memory(tiny_run, new_loop):
    loop = new_loop()
    run = tiny_run(steps=2)
    feed(run)
    loop.serve()
    model = weakref.ref(loop.run_trainers[run.pk].host.trainer.model)
    gc.disable()  # an accidental collection would free it, too
    try:
        train_to_the_end(loop, run)
        assert model() is None
    finally:
        gc.enable()


def test_lease_is_renewed_while_the_trainer_does_not_serve(
    tiny_run, new_loop, settings, eventually
):
    settings.LEASE_SECONDS = 8
    run = tiny_run()
    loop = new_loop()
    feed(run)
    loop.serve()
    run.refresh_from_db()
    first = run.lease_until

    def was_extended() -> bool:
        run.refresh_from_db()
        return (
            run.lease_until - first
        ).total_seconds() > settings.LEASE_SECONDS  # renewed after its first end

    assert eventually(was_extended, 120)
    assert run.fence == 1
