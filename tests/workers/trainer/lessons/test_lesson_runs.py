"""Runs that train on lessons, from the frozen snapshot to published weights, and across a crash."""

from pathlib import Path

import pytest

from apps.buffer.models import Snapshot, list_lessons
from apps.dashboard.reconciliation import reconcile
from apps.policies.manifest import verify_folder
from apps.rollouts.models import Group
from apps.runs.config import ConfigError
from apps.runs.models import Metric, Run, TrainStep
from tests import profiles
from tests.feedback.teaching import demonstrate, prefer, thumb
from workers.trainer.run_trainer import RunTrainer

SOURCES = {
    "sft": "demonstrations",
    "dpo": "preferences",
    "kto": "thumbs",
    "reward_model": "preferences",
}
METRICS = {
    "sft": {"expert_nll"},
    "dpo": {"chosen_reward", "rejected_reward", "margin", "right"},
    "kto": {"reward", "right", "kto_baseline"},
    "reward_model": {"chosen_reward", "rejected_reward", "margin", "right"},
}


class Killed(BaseException):
    """Simulates kill -9: nothing catches it and nothing is cleaned up."""


@pytest.fixture
def lesson_run(tiny_run, taskset):
    """Return a function that starts a run of 6 updates with 3 lessons each."""
    demonstrate(taskset)
    prefer(taskset, (None, 0.5))
    thumb(taskset)

    def make(name: str, **changes) -> Run:
        plan = {"group_size": 8, "groups_per_step": 16, "rewards": []}
        snapshot = {"source": SOURCES[name], "rows": 3}
        return tiny_run(**plan, algorithm={"name": name}, snapshot=snapshot, **changes)

    return make


def train_to_the_end(loop, run: Run) -> Run:
    for _ in range(12):
        loop.serve()
        run.refresh_from_db()
        if run.state == Run.State.COMPLETED:
            return run
    raise AssertionError(f"{run} is {run.state} at step {run.step}: {run.state_reason}")


def fingerprint(run: Run) -> str:
    return run.weight_versions.get(version=run.published_version).fingerprint


@pytest.mark.parametrize("name", SOURCES)
def test_run_trains_on_its_snapshot_and_publishes(name, lesson_run, new_loop):
    run = train_to_the_end(new_loop(), lesson_run(name))
    assert (run.step, run.published_version) == (6, 6)
    prints = set(run.weight_versions.values_list("fingerprint", flat=True))
    assert len(prints) == 7, "every update changes the weights"
    assert verify_folder(
        Path(run.weight_versions.get(version=6).folder)
    ).fingerprint == fingerprint(run)
    assert not {check: found for check, found in reconcile().items() if found}
    assert not Group.objects.filter(run=run).exists()


@pytest.mark.parametrize("name", SOURCES)
def test_metrics_are_recorded_and_the_loss_falls(name, lesson_run, new_loop):
    run = train_to_the_end(new_loop(), lesson_run(name))
    metrics = dict(Metric.objects.filter(run=run, step=6).values_list("name", "value"))
    assert (
        METRICS[name] | {"loss", "grad_norm", "learning_rate", "rows", "epoch", "step_seconds"}
        <= metrics.keys()
    )
    losses = list(
        Metric.objects.filter(run=run, name="loss").order_by("step").values_list("value", flat=True)
    )
    assert sum(losses[3:]) < sum(losses[:3])


def test_demonstrations_are_learned_at_temperature_1(lesson_run, new_loop):
    usual = lesson_run("sft")
    sharper = lesson_run("sft", sampling={"temperature": 0.5})
    prints = [fingerprint(train_to_the_end(new_loop(), run)) for run in (usual, sharper)]
    assert prints[0] == prints[1]


@pytest.mark.parametrize("name", profiles.nightly_but(SOURCES, kept=("dpo",)))
def test_run_reaches_the_same_weights_after_a_crash(name, lesson_run, new_loop, monkeypatch):
    whole = fingerprint(train_to_the_end(new_loop(), lesson_run(name)))
    run = lesson_run(name)
    loop = new_loop()
    commit = RunTrainer._commit

    def die(trainer, *args):
        if (
            trainer.run.step == 3
        ):  # the update after the checkpoint of step 2 is made but not committed
            raise Killed
        return commit(trainer, *args)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(RunTrainer, "_commit", die)
        train_to_the_end(loop, run)
    taken = {step.number: list_lessons(step) for step in run.steps.all()}
    Run.objects.filter(pk=run.pk).update(lease_until="2000-01-01T00:00Z")
    assert fingerprint(train_to_the_end(new_loop(), run)) == whole
    assert {step.number: list_lessons(step) for step in run.steps.filter(number__in=taken)} == taken
    assert set(run.steps.values_list("state", flat=True)) == {TrainStep.State.COMMITTED}


def test_learning_rate_can_be_changed_and_sampling_options_cannot(lesson_run, new_loop):
    run = lesson_run("dpo")
    loop = new_loop()
    loop.serve()
    run.change_config(None, optimizer={"learning_rate": 3e-4})
    loop.serve()
    rates = (
        run.metrics.filter(name="learning_rate").order_by("step").values_list("value", flat=True)
    )
    assert list(rates) == pytest.approx([1e-3, 3e-4])
    with pytest.raises(ConfigError, match="samples nothing"):
        run.change_config(None, sampling={"temperature": 0.5})


@pytest.mark.parametrize("name", SOURCES)
def test_micro_batch_size_does_not_change_loss_and_gradient_norm(name, lesson_run, new_loop):
    optimizer = {"warmup_steps": 0, "learning_rate": 1e-3}
    norms = []
    for rows in (None, 1, 2, 4):
        run = lesson_run(name, steps=1, optimizer={**optimizer, "micro_batch_rows": rows})
        train_to_the_end(new_loop(), run)
        norms.append(Metric.objects.get(run=run, name="grad_norm").value)
        losses = Metric.objects.get(run=run, name="loss").value
        assert losses == pytest.approx(
            Metric.objects.filter(name="loss").order_by("pk").first().value, rel=1e-5
        )
    assert norms == pytest.approx([norms[0]] * 4, rel=1e-5)


@pytest.mark.parametrize("name", profiles.nightly_but(("sft", "dpo", "kto"), kept=("sft",)))
def test_only_adapters_are_trained_published_and_resumed(name, lesson_run, new_loop, monkeypatch):
    lora = {"rank": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    whole = train_to_the_end(new_loop(), lesson_run(name, lora=lora))
    folder = Path(whole.weight_versions.get(version=6).folder)
    assert (folder / "adapter_model.safetensors").exists() and not (
        folder / "model.safetensors"
    ).exists()
    run = lesson_run(name, lora=lora)
    loop = new_loop()
    for _ in range(3):
        loop.serve()
    loop.stop()
    assert fingerprint(train_to_the_end(new_loop(), run)) == fingerprint(whole)


def test_a_reward_model_with_adapters_is_refused(lesson_run):
    with pytest.raises(ConfigError, match="trains all of its weights"):
        lesson_run("reward_model", lora={"rank": 4})


def test_run_without_lessons_pauses_with_the_reason(tiny_run, new_loop):
    run = tiny_run(
        group_size=8,
        groups_per_step=16,
        rewards=[],
        algorithm={"name": "kto"},
        snapshot={"source": "thumbs", "rows": 3},
    )
    assert not new_loop().serve()
    run.refresh_from_db()
    assert (run.state, Snapshot.objects.count()) == (Run.State.PAUSED, 0)
    assert "there were no thumbs to train on when the run started" in run.state_reason


def test_lesson_longer_than_the_policys_context_pauses_the_run(lesson_run, policy, new_loop):
    type(policy).objects.filter(pk=policy.pk).update(context_tokens=9)
    run = lesson_run("sft")
    new_loop().serve()
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    assert "tokens; the policy's context is 9" in run.state_reason


def test_lessons_that_changed_after_the_snapshot_are_never_trained(lesson_run, new_loop, taskset):
    run = lesson_run("dpo")
    loop = new_loop()
    loop.serve()
    loop.stop()
    taskset.project.preferences.filter(margin=None).update(margin=7.0)
    new_loop().serve()
    run.refresh_from_db()
    assert (run.state, run.step) == (Run.State.PAUSED, 1)
    assert "differ from what was frozen" in run.state_reason
