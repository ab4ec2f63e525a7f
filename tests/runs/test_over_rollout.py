"""Over-rollout that no later step could use is refused when the run is created."""

import pytest

from apps.runs.config import ConfigError


def problem(plan, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(**changes)
    return caught.value.problems["over_rollout"]


def test_over_rollout_is_limited_to_the_groups_that_later_steps_can_take(plan):
    assert plan().over_rollout is None
    assert plan(over_rollout=0, max_staleness=0).over_rollout == 0
    assert (
        plan(over_rollout=12, max_staleness=3, sync_interval=2, groups_per_step=2).over_rollout
        == 12
    )
    assert "at most 12 groups" in problem(
        plan, over_rollout=13, max_staleness=3, sync_interval=2, groups_per_step=2
    )
    assert "raise max_staleness" in problem(plan, over_rollout=1, max_staleness=0)


@pytest.mark.parametrize("order", ["freshest", "priority"])
def test_over_rollout_requires_the_fifo_order(plan, order):
    assert "fifo" not in order and order in problem(plan, over_rollout=1, reading={"order": order})


def test_over_rollout_and_replay_exclude_each_other(plan):
    assert "replay" in problem(
        plan, over_rollout=1, groups_per_step=4, reading={"replay": "uniform"}
    )


def test_over_rollout_is_refused_for_a_run_that_samples_nothing(plan):
    assert "remove it" in problem(plan, over_rollout=1, algorithm={"name": "sft"}, rewards=[])


def test_over_rollout_may_be_changed_during_a_run_within_its_bound(new_run):
    run = new_run(max_staleness=1, groups_per_step=2)
    run.change_config(None, over_rollout=2)
    assert run.pace.over_rollout == 2
    with pytest.raises(ConfigError):
        run.change_config(None, max_staleness=0)
