"""Runs whose batches are not complete groups with one advantage per rollout complete, and nothing
is lost.
"""

import pytest

from apps.buffer.models import Experience, StepItem
from apps.dashboard.reconciliation import reconcile
from apps.runs.models import Run
from tests.workers.trainer.feeding import train_to_the_end

RUNS = {
    "reinforce_plus_plus": {
        "group_size": 1,
        "groups_per_step": 4,
        "algorithm": "reinforce_plus_plus",
    },
    "gae": {"algorithm": {"name": "ppo", "advantage": {"gamma": 0.9, "lam": 0.9}}},
    "gigpo": {"algorithm": "gigpo"},
    "batch_std": {"algorithm": {"advantage": {"scale": "batch"}}},
    "raft": {"algorithm": "raft"},
    "dapo": {"algorithm": "dapo"},
}


@pytest.mark.parametrize("name", RUNS)
def test_run_completes_and_reconcile_finds_no_violations(tiny_run, new_loop, name):
    run = train_to_the_end(new_loop(), tiny_run(steps=2, **RUNS[name]))
    assert (run.state, run.step) == (Run.State.COMPLETED, 2)
    assert not run.steps.exclude(skipped="").exists()
    violations = {name: found for name, found in reconcile().items() if found}
    assert set(violations) <= {"engines served what was published"}  # this test has no engine


def test_gae_records_an_advantage_for_every_token(tiny_run, new_loop):
    train_to_the_end(new_loop(), tiny_run(steps=1, **RUNS["gae"]))
    items = StepItem.objects.select_related("experience__rollout__payload")
    for item in items:
        assert len(bytes(item.token_advantages)) == 4 * item.experience.rollout.completion_tokens


def test_raft_trains_only_on_the_best_rollout_of_each_group(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(steps=1, **RUNS["raft"]))
    trained = Experience.objects.filter(run=run, state=Experience.State.TRAINED)
    assert len(trained) == run.settings.groups_per_step
    assert [e.reward for e in trained] == [
        max(e.group.rollouts.values_list("rewards__value", flat=True)) for e in trained
    ]
