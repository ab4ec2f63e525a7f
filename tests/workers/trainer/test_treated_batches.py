"""Batch operators with a real trainer: rows that they leave out are not in the loss, and repeated
updates are equal.
"""

from dataclasses import replace

import pytest

from apps.buffer.models import Experience, StepItem
from apps.pipelines.operators import find_operator
from apps.runs.models import Run
from tests import profiles
from tests.workers.trainer.feeding import feed, train_to_the_end
from tests.workers.trainer.test_crashes import kill_in_step
from tests.workers.trainer.test_replay_trainer import batches, dana, rated_run, replayed, violations

__all__ = ["dana", "rated_run"]  # fixtures

LOW = {"operator": "reward_at_least", "options": {"threshold": 0.4}}
TREATED = {
    "pipeline": [
        {**LOW, "stage": "batch"},
        {"operator": "token_budget", "options": {"max_tokens": 24}},
        {"operator": "advantages", "options": {"normalise": True, "max_advantage": 1.2}},
    ]
}


def left_out(run: Run) -> list[list[str]]:
    """Return, for the rows of each update in order, the reason why they are left out."""
    return [
        list(step.items.order_by("position").values_list("left_out", flat=True))
        for step in run.steps.order_by("number")
    ]


def fingerprint(run: Run) -> str:
    return run.weight_versions.first().fingerprint


def test_rows_left_out_of_a_batch_have_the_same_effect_as_rows_never_admitted(tiny_run, new_loop):
    never = train_to_the_end(
        new_loop(), tiny_run(steps=3, pipeline=[{**LOW, "stage": "experiences"}])
    )
    left = train_to_the_end(new_loop(), tiny_run(steps=3, pipeline=[{**LOW, "stage": "batch"}]))
    all_of_it = train_to_the_end(new_loop(), tiny_run(steps=3))
    assert any(reason for reasons in left_out(left) for reason in reasons)
    assert fingerprint(left) == fingerprint(never) != fingerprint(all_of_it)
    told = [
        dict(run.metrics.filter(step=1).values_list("name", "value"))
        for run in (left, never, all_of_it)
    ]
    assert (
        told[0]["tokens"] == told[1]["tokens"] < told[2]["tokens"]
        and told[0]["rows"] == told[2]["rows"]
    )
    assert (
        set(Experience.objects.filter(run=left).values_list("state", "uses")) == {("trained", 1)}
        and violations() == {}
    )


@pytest.mark.parametrize("method", profiles.nightly_but(("_update", "_commit"), kept=("_commit",)))
def test_trainer_after_a_killed_one_makes_the_same_updates(tiny_run, new_loop, monkeypatch, method):
    undisturbed = train_to_the_end(new_loop(), tiny_run(**TREATED))
    run = tiny_run(**TREATED)
    kill_in_step(new_loop(), run, 5, method, monkeypatch)
    run = train_to_the_end(new_loop(), run)
    assert left_out(run) == left_out(undisturbed) and any(map(any, left_out(run)))
    assert fingerprint(run) == fingerprint(undisturbed) and violations() == {}
    said = [
        list(one.operator_counts.values_list("operator", "given", "kept"))
        for one in (run, undisturbed)
    ]
    assert said[0] == said[1]


def test_replay_makes_exactly_the_same_updates(rated_run, new_loop):
    run = rated_run(**TREATED)
    again = replayed(run, new_loop)
    assert (
        left_out(again) == left_out(run)
        and any(map(any, left_out(run)))
        and batches(again) == batches(run)
    )
    assert fingerprint(again) == fingerprint(run) and violations() == {}


def test_updates_without_remaining_rows_keep_the_weights_and_pause_the_run(tiny_run, new_loop):
    run = tiny_run(pipeline=[{**LOW, "stage": "batch", "options": {"threshold": 9}}])
    loop = new_loop()
    for _ in range(3):
        feed(run)
        loop.serve()
    run.refresh_from_db()
    assert (
        run.state == Run.State.PAUSED
        and run.step == 3
        and "consecutive steps were skipped: the pipeline left" in run.state_reason
    )
    assert len(set(run.weight_versions.values_list("fingerprint", flat=True))) == 1
    assert not StepItem.objects.filter(left_out="").exists() and violations() == {}


def test_broken_operator_pauses_the_run_and_the_update_is_made_after_the_fix(
    tiny_run, new_loop, monkeypatch
):
    def broken(samples, options):
        raise ValueError("cannot read this")

    run = tiny_run(**TREATED)
    loop = new_loop()
    feed(run)
    with monkeypatch.context() as patch:
        patch.setattr(
            "apps.pipelines.applying.find_operator",
            lambda name: replace(find_operator(name), call=broken),
        )
        loop.serve()
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED and run.step == 0
    assert (
        run.state_reason
        == "the pipeline failed on the batch of step 1: reward_at_least: ValueError: cannot read"
        " this"
    )
    run.resume()
    assert loop.serve()
    run.refresh_from_db()
    assert run.step == 1 and violations() == {}
