"""Options changed on a training run apply from its next update; a repeated update uses its
original ones.
"""

from dataclasses import replace

import pytest

from apps.runs.models import Run
from tests import profiles
from tests.workers.trainer.batches import digest, rows
from tests.workers.trainer.feeding import feed, train_to_the_end
from tests.workers.trainer.test_crashes import kill_in_step
from workers.trainer import checkpoint, weight_store
from workers.trainer.spec import Divergence, Objective
from workers.trainer.tuning import Coefficient

KL = {"name": "grpo", "kl": {"estimator": "k3", "coefficient": 0.1}}
TURNED = {
    "optimizer": {"learning_rate": 3e-4},
    "algorithm": {"kl": {"coefficient": 0.7}},
    "sampling": {"temperature": 0.6},
}


def one_step(loop, run: Run) -> None:
    feed(run)
    loop.serve()
    run.refresh_from_db()


def turned_after(steps: int, loop, run: Run) -> Run:
    for _ in range(steps):
        one_step(loop, run)
    run.change_config(None, **TURNED)
    return run


def curve(run: Run, name: str) -> list[float]:
    return list(run.metrics.filter(name=name).order_by("step").values_list("value", flat=True))


def test_changed_options_apply_from_the_next_update(tiny_run, new_loop):
    loop = new_loop()
    run = turned_after(2, loop, tiny_run(algorithm=KL))
    one_step(loop, run)
    assert curve(run, "learning_rate") == pytest.approx([1e-3, 1e-3, 3e-4])
    assert curve(run, "kl_coefficient") == pytest.approx([0.1, 0.1, 0.7])
    steps = run.steps.order_by("number")
    assert [step.knobs["sampling.temperature"] for step in steps] == [1.0, 1.0, 0.6]
    width = run.settings.sampling.max_tokens
    assert [step.knobs["sampling.max_tokens"] for step in steps] == [width] * 3


@pytest.mark.parametrize("every", profiles.nightly_but((2, 100), kept=(2,)))
def test_run_killed_after_an_option_change_reaches_the_same_weights(
    tiny_run, new_loop, monkeypatch, every
):
    """Both with a checkpoint from before the change and with none, all updates are repeated, each
    with its own options.
    """
    plan = {"algorithm": KL, "checkpoints": {"every": every}}
    loop = new_loop()
    undisturbed = (
        train_to_the_end(loop, turned_after(3, loop, tiny_run(**plan)))
        .weight_versions.first()
        .fingerprint
    )
    loop = new_loop()
    run = turned_after(3, loop, tiny_run(**plan))
    kill_in_step(loop, run, 5, "_stage", monkeypatch)
    run.change_config(None, optimizer={"learning_rate": 0.5})  # no recorded step uses it
    run.change_config(None, optimizer={"learning_rate": 3e-4})
    assert train_to_the_end(new_loop(), run).weight_versions.first().fingerprint == undisturbed


def test_batch_planned_before_a_change_keeps_its_options(tiny_run, new_loop, monkeypatch):
    run = tiny_run()
    kill_in_step(new_loop(), run, 2, "_update", monkeypatch)
    run.change_config(None, optimizer={"learning_rate": 5e-4})
    one_step(new_loop(), run)
    assert curve(run, "learning_rate") == pytest.approx([1e-3, 1e-3])


def test_changed_options_have_the_same_effect_as_initial_ones(spec, started, tmp_path):
    divergence = Divergence("k3", 0.3)
    plan = spec(
        temperature=0.7,
        learning_rate=5e-3,
        objective=Objective(kl=divergence),
        output=tmp_path / "a",
    )
    others = spec(
        objective=Objective(kl=replace(divergence, coefficient=0.01)), output=tmp_path / "b"
    )
    built = started(plan)
    tuned = started(others)
    plain = started(replace(others, output=tmp_path / "c"))
    for step in (1, 2):
        built.update(rows(step))
        tuned.update(rows(step), knobs=plan.knobs)
        plain.update(rows(step))
    assert digest(tuned) == digest(built)
    assert digest(plain) != digest(built)


def test_sums_over_tokens_are_divided_by_the_width_that_was_recorded_with_the_step(
    spec, started, tmp_path
):
    objective = Objective(aggregation="seq-mean-token-sum-norm")
    plan = spec(objective=objective, max_completion_length=32, output=tmp_path / "a")
    built = started(plan)
    tuned = started(replace(plan, max_completion_length=64, output=tmp_path / "b"))
    for step in (1, 2):
        built.update(rows(step))
        tuned.update(rows(step), knobs=replace(plan.knobs, width=32))
    assert digest(tuned) == digest(built)


def test_changed_kl_coefficient_resets_the_adaptive_coefficient(spec):
    knobs = spec(objective=Objective(kl=Divergence("k3", 0.1, target=0.05))).knobs
    weight = Coefficient.of(knobs)
    weight.follow(knobs, measured=1.0, rows=1000)
    moved = weight.value
    weight.take_up(knobs)
    assert weight.value == moved > 0.1
    weight.take_up(replace(knobs, kl_coefficient=0.4))
    assert weight.value == 0.4


def test_requested_checkpoint_is_written_after_the_next_update(tiny_run, new_loop, alice):
    run = tiny_run(checkpoints={"every": 100})
    loop = new_loop()
    run.ask_checkpoint(alice, "before I turn the knobs")
    one_step(loop, run)
    one_step(loop, run)
    assert [
        folder.name
        for folder in checkpoint.sealed(weight_store.training_folder(run) / "checkpoints")
    ] == ["step-00000001"]
    assert (run.checkpoint_step, run.checkpoint_requested_at) == (1, None)
    asked, written = run.topic.events.filter(kind__startswith="checkpoint").order_by("sequence")
    assert (asked.payload["reason"], written.payload) == (
        "before I turn the knobs",
        {"step": 1, "requested": True},
    )
