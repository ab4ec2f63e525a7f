"""From planned batch to published weights, in rows."""

from pathlib import Path

import pytest
from django.db.models import Count

from apps.buffer.models import Experience, StepItem
from apps.dashboard.reconciliation import reconcile
from apps.policies.manifest import verify
from apps.runs.costs import cost_of
from apps.runs.models import Metric, Run, TrainStep, Usage, WeightVersion, Worker
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers.trainer.desk import Desk


def test_a_step_is_planned_trained_committed_and_published(tiny_run, new_station):
    run = tiny_run()
    feed(run)
    assert new_station().serve()
    run.refresh_from_db()
    assert (run.step, run.published_version) == (1, 1)
    step = run.steps.get()
    assert (step.state, step.number, step.version) == (TrainStep.State.COMMITTED, 1, 0)
    assert set(Experience.objects.values_list("state", "uses")) == {("trained", 1)}
    version = run.weight_versions.get(version=1)
    assert (version.state, version.step, version.parent.version) == (WeightVersion.State.PUBLISHED, 1, 0)
    assert verify(Path(version.folder)).fingerprint == version.fingerprint


def test_a_run_ends_when_its_planned_steps_are_done(tiny_run, new_station):
    run = train_to_the_end(new_station(), tiny_run())
    assert (run.state, run.step, run.published_version) == (Run.State.COMPLETED, 6, 6)
    assert not StepItem.objects.values("experience").annotate(n=Count("pk")).filter(n__gt=1)
    violations = {name: found for name, found in reconcile().items() if found}
    assert set(violations) <= {"engines served what was published"}  # no engine takes part here


def test_the_same_batches_give_the_same_weights(tiny_run, new_station):
    prints = [train_to_the_end(new_station(), tiny_run()).weight_versions.first().fingerprint for _ in range(2)]
    assert prints[0] == prints[1]


def test_weights_are_published_by_the_interval_and_at_the_end(tiny_run, new_station):
    run = train_to_the_end(new_station(), tiny_run(steps=5, sync_interval=2))
    assert list(run.weight_versions.order_by("version").values_list("version", "step")) == [(0, 0), (1, 2), (2, 4), (3, 5)]


def test_figures_are_written_with_the_step(tiny_run, new_station):
    run = tiny_run()
    feed(run)
    new_station().serve()
    figures = dict(Metric.objects.filter(run=run, step=1).values_list("name", "value"))
    wanted = {
        "reward_mean", "reward_std", "reward_rule", "reward_machine", "success", "completion_length", "staleness", "entropy",
        "behaviour_gap", "behaviour_kl", "clip_share", "grad_norm", "learning_rate", "loss", "tokens", "step_seconds",
        "wait_seconds", "explore_tokens_per_s", "judged_per_s", "refined_per_s", "groups_ready", "groups_under_way", "skipped",
        "train_tokens_per_s", "dead_groups", "starved_people", "starved_judging", "starved_sampling",
    }  # fmt: skip
    assert wanted <= figures.keys()
    assert figures["reward_mean"] == pytest.approx(sum(Experience.objects.values_list("reward", flat=True)) / 8)


def test_what_an_update_used_is_counted_with_its_commit(tiny_run, new_station):
    run = tiny_run()
    feed(run)
    new_station().serve()
    used = Usage.objects.get(run=run, kind="trainer.cpu_s")
    assert used.amount > 0 and used.worker == Worker.objects.get(role="trainer").key
    recorded = Metric.objects.get(run=run, step=1, name="cost_cpu_hours").value
    assert recorded == pytest.approx(cost_of([run])[run.pk].cpu_hours)


def test_the_buffer_is_counted_when_a_step_is_committed(tiny_run, new_station):
    run = tiny_run()
    feed(run, groups=3)
    new_station().serve()
    figures = dict(Metric.objects.filter(run=run, step=1).values_list("name", "value"))
    assert (figures["groups_ready"], figures["groups_under_way"]) == (1, 0)


def test_what_the_trainer_waits_for_is_said(tiny_run, new_station):
    run, station = tiny_run(), new_station()
    assert not station.serve()
    run.refresh_from_db()
    assert run.waiting_on == "2 more groups (no explorer is alive)"
    feed(run)
    station.serve()
    run.refresh_from_db()
    assert run.waiting_on == ""


def test_while_an_update_is_made_nothing_is_waited_for(tiny_run, new_station, monkeypatch):
    """A trainer that takes the run over reads what the one before it said."""
    run, said, update = tiny_run(), [], Desk._update
    monkeypatch.setattr(Desk, "_update", lambda *given: said.append(Run.objects.get(pk=run.pk).waiting_on) or update(*given))
    new_station().serve()
    assert Run.objects.get(pk=run.pk).waiting_on
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    feed(run)
    new_station().serve()
    assert said == [""]


def test_what_is_waited_for_is_said_again_after_a_pause(tiny_run, new_station, alice):
    run, station = tiny_run(), new_station()
    station.serve()
    run.refresh_from_db()
    run.pause()
    run.resume()
    assert Run.objects.get(pk=run.pk).waiting_on == ""
    station.said_at.clear()
    station.serve()
    assert Run.objects.get(pk=run.pk).waiting_on == "2 more groups (no explorer is alive)"


def test_an_experience_over_the_bound_is_retired_and_never_trained(tiny_run, new_station):
    run, station = tiny_run(max_staleness=1), new_station()
    feed(run, 4)
    station.serve()
    station.serve()
    run.refresh_from_db()
    assert run.step == 2
    feed(run, 2, version=0)
    station.serve()
    run.refresh_from_db()
    assert run.step == 2
    assert set(Experience.objects.filter(state="dropped").values_list("reason", flat=True)) == {"stale: older than version 1"}
    assert run.groups_dropped == 2


def test_a_paused_run_is_not_trained_and_keeps_its_place(tiny_run, new_station):
    run, station = tiny_run(), new_station()
    feed(run)
    station.serve()
    feed(run)
    run.pause()
    assert not station.serve()
    host = station.desks[run.pk].host
    run.resume()
    assert station.serve()
    assert station.desks[run.pk].host is host


def test_a_stopped_run_gives_up_its_place_and_its_lease(tiny_run, new_station):
    run, station = tiny_run(), new_station()
    feed(run)
    station.serve()
    assert run.pk in station.desks
    run.stop()
    station.serve()
    run.refresh_from_db()
    assert not station.desks
    assert run.lease_until is None


def test_a_run_that_another_trainer_holds_is_left_alone(tiny_run, new_station):
    run, first, second = tiny_run(), new_station(), new_station()
    feed(run)
    first.serve()
    feed(run)
    assert not second.serve()
    assert first.serve()


def test_more_runs_than_places_all_get_their_turn(tiny_run, new_station, settings):
    settings.TRAINERS_PER_WORKER = 1
    settings.TRAINER_TURN_SECONDS = settings.RESIDENT_MEMORY_MB = 0
    runs, station = [tiny_run(steps=2) for _ in range(3)], new_station()
    for _ in range(12):
        for run in runs:
            feed(run)
        station.serve()
        assert len(station.desks) <= 1
    assert set(Run.objects.values_list("state", flat=True)) == {Run.State.COMPLETED}


def test_an_error_pauses_the_run_with_its_reason_and_no_other(tiny_run, new_station, monkeypatch):
    sick, well = tiny_run(), tiny_run()
    station = new_station()
    feed(sick)
    feed(well)
    station.serve()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(station.desks[sick.pk].host, "publish", full)
    feed(sick)
    feed(well)
    station.serve()
    sick.refresh_from_db()
    well.refresh_from_db()
    assert (sick.state, sick.step) == (Run.State.PAUSED, 1)
    assert "No space left on device" in sick.state_reason
    assert (well.state, well.step) == (Run.State.RUNNING, 2)
    sick.resume()
    assert train_to_the_end(station, sick).state == Run.State.COMPLETED


def test_skipped_updates_are_counted_and_three_in_a_row_pause_the_run(tiny_run, new_station, monkeypatch):
    monkeypatch.setattr("tests.workers.trainer.feeding.random.Random.gauss", lambda self, mean, deviation: float("nan"))
    run, station = tiny_run(), new_station()
    for _ in range(3):
        feed(run)
        station.serve()
    run.refresh_from_db()
    assert (run.state, run.step) == (Run.State.PAUSED, 3)
    assert "3 updates in a row were skipped: the loss is not finite" in run.state_reason
    assert {step.skipped for step in run.steps.all()} == {"the loss is not finite"}
    assert set(run.weight_versions.values_list("fingerprint", flat=True)) == {run.policy.fingerprint}


def test_skips_in_a_row_are_counted_across_trainers(tiny_run, new_station, monkeypatch):
    run = tiny_run()
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr("tests.workers.trainer.feeding.random.Random.gauss", lambda self, mean, deviation: float("nan"))
            feed(run)
        station = new_station()
        station.serve()
        station.stop()
    run.refresh_from_db()
    assert (run.step, run.state) == (2, Run.State.RUNNING)
    assert new_station()._desk_for(run).host.recorder.skips_in_a_row == 2


def test_a_completed_run_frees_its_place_at_once(tiny_run, new_station):
    station = new_station()
    run = train_to_the_end(station, tiny_run(steps=1))
    assert not station.desks
    assert (run.lease_owner, run.lease_until) == ("", None)


def test_a_lease_is_kept_while_nobody_serves(tiny_run, new_station, settings, eventually):
    settings.LEASE_SECONDS = 8
    run, station = tiny_run(), new_station()
    feed(run)
    station.serve()
    run.refresh_from_db()
    first = run.lease_until

    def was_extended() -> bool:
        run.refresh_from_db()
        return (run.lease_until - first).total_seconds() > settings.LEASE_SECONDS  # said anew after its first end

    assert eventually(was_extended, 120)
    assert run.fence == 1
