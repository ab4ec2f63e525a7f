"""Runs that train on expert rows and their own samples, from the rows to the weights; and other
algorithms and references.
"""

from pathlib import Path

import pytest

from apps.buffer.models import Experience, StepItem
from apps.dashboard.reconciliation.lessons import expert_rows_name_their_parents
from apps.policies.models import Policy
from apps.runs.models import Metric, NotPossible, Run, WeightVersion
from tests import profiles
from tests.feedback.teaching import demonstrate
from tests.workers.trainer.feeding import feed, train_to_the_end
from tests.workers.trainer.test_crashes import kill_in_step
from workers.policies.tiny import build_tiny
from workers.trainer import weight_store
from workers.trainer.spec import ReferenceModel

MIX = {"name": "mix", "expert": {"ratio": 0.2, "mu": 0.3, "source": "buffer"}}


@pytest.fixture
def mixed_run(tiny_run, taskset):
    """Return a function that starts a MIX run with eight demonstrations: 8 usual and 2 expert rows
    per step.
    """
    demonstrate(taskset, 2)
    return lambda **changes: tiny_run(**{"algorithm": MIX, **changes})


def test_every_step_has_the_configured_share_of_expert_rows(mixed_run, new_loop):
    run = train_to_the_end(new_loop(), mixed_run())
    assert (run.state, run.step) == (Run.State.COMPLETED, 6)
    for step in run.steps.all():
        kinds = list(step.items.order_by("position").values_list("experience__kind", flat=True))
        assert kinds == ["usual"] * 8 + ["expert"] * 2
    metrics = dict(Metric.objects.filter(run=run, step=6).values_list("name", "value"))
    assert (metrics["mu"], metrics["expert_rows"], metrics["rows"]) == (0.3, 2, 10)
    assert metrics["expert_nll"] > 0


def test_expert_rows_change_the_trained_weights(mixed_run, tiny_run, new_loop):
    prints = [
        train_to_the_end(new_loop(), make()).weight_versions.first().fingerprint
        for make in (mixed_run, tiny_run)
    ]
    assert prints[0] != prints[1]


def test_mix_run_resumed_by_another_trainer_reaches_the_same_weights(
    mixed_run, new_loop, monkeypatch
):
    undisturbed = train_to_the_end(new_loop(), mixed_run())
    run = mixed_run()
    kill_in_step(new_loop(), run, 4, "_stage", monkeypatch)
    run = train_to_the_end(new_loop(), run)
    recorded = [
        list(
            StepItem.objects.filter(step__run=each)
            .order_by("step__number", "position")
            .values_list("step__number", "position")
        )
        for each in (undisturbed, run)
    ]
    assert recorded[0] == recorded[1]
    assert (
        run.weight_versions.first().fingerprint == undisturbed.weight_versions.first().fingerprint
    )


def test_run_without_expert_rows_waits_and_shows_the_reason(tiny_run, new_loop):
    run = tiny_run(algorithm=MIX)
    loop = new_loop()
    feed(run)
    assert not loop.serve()
    run.refresh_from_db()
    assert (run.state, run.step) == (Run.State.RUNNING, 0)
    assert run.waiting_on.startswith("2 more expert answers")
    assert not Experience.objects.filter(run=run, state="claimed").exists()


def test_run_trains_on_its_own_best_answers_without_waiting_for_experts(tiny_run, new_loop):
    best = [{"operator": "best_answers", "options": {"threshold": 0.0}}]
    run = train_to_the_end(new_loop(), tiny_run(algorithm=MIX, pipeline=best))
    assert (run.state, run.step) == (Run.State.COMPLETED, 6)
    last = run.steps.get(number=6).items.filter(experience__kind="expert")
    assert (
        set(last.values_list("experience__rollout__origin", flat=True)) == {"policy"}
        and last.count() == 2
    )
    metrics = dict(Metric.objects.filter(run=run, step=6).values_list("name", "value"))
    assert (metrics["expert_rows"], metrics["rows"]) == (2, 10) and metrics["expert_nll"] > 0
    without = train_to_the_end(new_loop(), tiny_run())
    assert run.weight_versions.first().fingerprint != without.weight_versions.first().fingerprint
    assert not list(expert_rows_name_their_parents())


def test_chord_schedule_changes_mu_with_the_steps(mixed_run, new_loop):
    expert = {**MIX["expert"], "schedule": {"warmup": 2, "decay": 2, "peak": 0.8, "valley": 0.2}}
    run = train_to_the_end(new_loop(), mixed_run(algorithm={"name": "mix_chord", "expert": expert}))
    metrics = dict(Metric.objects.filter(run=run, name="mu").values_list("step", "value"))
    assert [metrics[step] for step in range(1, 7)] == pytest.approx([0.0, 0.4, 0.8, 0.5, 0.2, 0.2])


# -- reference models, teachers and optimizers by configuration

ALGORITHMS = {
    "kimi_opmd": {"name": "kimi_opmd"},
    "an average as reference": {
        "kl": {"estimator": "k3", "coefficient": 0.1},
        "reference": {"kind": "average", "decay": 0.5},
    },
    "an adaptive coefficient": {
        "kl": {"estimator": "k2", "coefficient": 0.1, "target": 0.001, "horizon": 100}
    },
    "decoupled": {"name": "decoupled"},
}


@pytest.mark.parametrize("name", profiles.nightly_but(ALGORITHMS, kept=("decoupled",)))
def test_run_resumed_by_another_trainer_reaches_the_same_weights(
    tiny_run, new_loop, monkeypatch, name
):
    undisturbed = train_to_the_end(new_loop(), tiny_run(algorithm=ALGORITHMS[name]))
    run = tiny_run(algorithm=ALGORITHMS[name])
    kill_in_step(new_loop(), run, 4, "_commit", monkeypatch)
    run = train_to_the_end(new_loop(), run)
    assert (
        run.weight_versions.first().fingerprint == undisturbed.weight_versions.first().fingerprint
    )


def test_teacher_can_be_another_model_of_the_project(tiny_run, new_loop, policy, tmp_path):
    build_tiny(tmp_path / "teacher", seed=7)
    Policy.objects.create(
        project=policy.project,
        slug="teacher",
        title="Teacher",
        source="test",
        folder=str(tmp_path / "teacher"),
        fingerprint="f",
        architecture="Qwen3ForCausalLM",
        parameters=1,
        context_tokens=128,
    )
    run = tiny_run(
        algorithm={
            "name": "on_policy_distill",
            "reference": {"kind": "policy", "policy": "teacher"},
        }
    )
    assert weight_store.find_reference_model(run) == ReferenceModel("policy", tmp_path / "teacher")
    assert train_to_the_end(new_loop(), run).state == Run.State.COMPLETED


def test_missing_teacher_pauses_the_run(tiny_run, new_loop, policy, tmp_path):
    teacher = Policy.objects.create(
        project=policy.project,
        slug="teacher",
        title="Teacher",
        source="test",
        folder=str(tmp_path),
        fingerprint="f",
        architecture="Qwen3ForCausalLM",
        parameters=1,
        context_tokens=128,
    )
    run = tiny_run(
        algorithm={
            "name": "on_policy_distill",
            "reference": {"kind": "policy", "policy": "teacher"},
        }
    )
    teacher.delete()
    feed(run)
    new_loop().serve()
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    assert "algorithm.reference.policy: the project has no policy 'teacher'" in run.state_reason


def against(run: Run, version: int) -> dict:
    reference = {"kind": "version", "run": run.slug, "version": version}
    return {"kl": {"estimator": "k3", "coefficient": 0.1}, "reference": reference}


def test_reference_version_of_another_run_is_used_and_keeps_its_folder(tiny_run, new_loop):
    first = tiny_run(checkpoints={"every": 2, "weights": 2})
    loop = new_loop()
    feed(first)
    loop.serve()
    second = tiny_run(algorithm=against(first, 1))
    folder = Path(first.weight_versions.get(version=1).folder)
    assert weight_store.find_reference_model(second) == ReferenceModel("version", folder)
    for _ in range(5):
        feed(first)
        loop.serve()
    states = dict(first.weight_versions.values_list("version", "state"))
    assert (states[1], states[2]) == (WeightVersion.State.PUBLISHED, WeightVersion.State.RETIRED)
    feed(second)
    loop.serve()
    assert Metric.objects.get(run=second, step=1, name="kl").value > 0


def test_retired_reference_version_is_refused(tiny_run, new_loop):
    first = tiny_run()
    loop = new_loop()
    feed(first)
    loop.serve()
    second = tiny_run(algorithm=against(first, 1))
    first.weight_versions.filter(version=1).update(state=WeightVersion.State.RETIRED)
    with pytest.raises(NotPossible, match="no stored version 1"):
        weight_store.find_reference_model(second)
