"""An explorer filters tasks before it draws them; operators that leave no task, or break, pause
the run with the reason.
"""

from dataclasses import replace

import pytest

from apps.pipelines.operators import find_operator
from apps.runs.models import Run, Worker
from workers.explorer.loop import ExplorerLoop

MIDDLE = {"operator": "difficulty_band", "options": {"scale": "level", "low": 2, "high": 3}}


@pytest.fixture
def explorer(transactional_db):
    made = ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield made
    made.stop()


@pytest.fixture
def sifted_run(new_run, tiny_policy, taskset):
    """Return a function that creates a run over tasks of levels 3, 1, 4, 2; two may be drawn."""

    def make(**changes: object) -> Run:
        for index, level in enumerate((3, 1, 4, 2)):
            taskset.tasks.filter(index=index).update(meta={"level": level})
        return new_run(
            **{
                "sampling": {"max_tokens": 8},
                "engine": "transformers",
                "pipeline": [MIDDLE],
                **changes,
            }
        )

    return make


def test_left_out_tasks_are_not_sampled(sifted_run, explorer):
    run = sifted_run()
    explorer.serve()
    assert run.groups.count() == 4
    assert (
        set(run.groups.values_list("task__index", flat=True)) == {0, 3}
        and run.left_out.count() == 2
    )


def test_run_pauses_without_tasks_and_continues_with_another_pipeline(sifted_run, explorer, alice):
    run = sifted_run(pipeline=[{**MIDDLE, "options": {"scale": "level", "low": 9}}])
    explorer.serve()
    run.refresh_from_db()
    assert (
        run.state == Run.State.PAUSED
        and "no task of sort would be left to sample: difficulty_band" in run.state_reason
    )
    run.change_config(alice, pipeline=[MIDDLE])
    run.resume()
    explorer.looked_at = 0.0
    explorer.serve()
    assert run.groups.count()


def test_broken_operator_pauses_the_run(sifted_run, explorer, monkeypatch):
    def broken(samples, options):
        raise ValueError("cannot read this")

    run = sifted_run()
    monkeypatch.setattr(
        "apps.pipelines.applying.find_operator",
        lambda name: replace(find_operator(name), call=broken),
    )
    explorer.serve()
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (
        Run.State.PAUSED,
        "difficulty_band: ValueError: cannot read this",
    )
    assert not run.groups.exists() and not run.left_out.exists()
