"""Over-rollout that could not serve a later update is refused by field when the run is made."""

import pytest

from apps.runs.config import ConfigError


def problem(plan, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(**changes)
    return caught.value.problems["over_rollout"]


def test_as_many_groups_as_later_updates_can_take_may_be_left_over(plan):
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
def test_what_was_drawn_first_must_be_taken_first(plan, order):
    assert "fifo" not in order and order in problem(plan, over_rollout=1, reading={"order": order})


def test_what_is_left_over_and_what_is_trained_again_do_not_fill_one_update(plan):
    assert "replay" in problem(
        plan, over_rollout=1, groups_per_step=4, reading={"replay": "uniform"}
    )


def test_it_means_nothing_to_a_run_that_draws_nothing(plan):
    assert "remove it" in problem(plan, over_rollout=1, algorithm={"name": "sft"}, rewards=[])


def test_it_may_be_changed_while_the_run_is_live_within_its_bound(new_run):
    run = new_run(max_staleness=1, groups_per_step=2)
    run.change_config(None, over_rollout=2)
    assert run.pace.over_rollout == 2
    with pytest.raises(ConfigError):
        run.change_config(None, max_staleness=0)
