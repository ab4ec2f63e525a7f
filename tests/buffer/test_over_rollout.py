"""With over-rollout an update takes the complete groups, and waits for those that are too old for a
later one.
"""

import pytest

from apps.buffer.models import Experience, batch_of, plan_step, stragglers
from apps.dashboard.reconciliation import CHECKS
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run
from tests.conftest import tokens_of
from workers.trainer.metrics import describe_missing_groups

WIDE = (0.0, 1.0)


@pytest.fixture
def over(new_run) -> Run:
    """Create a run with two groups an update, one extra group and staleness 1; its first group is
    still being sampled.
    """
    run = new_run(groups_per_step=2, over_rollout=1, max_staleness=1)
    assert run.claim_trainer("t", 60)
    assert len(Group.open(run, "e", 60, 1, 0)) == 1
    return run


def draws(step) -> list[int]:
    return list(dict.fromkeys(experience.group.draw_index for experience in batch_of(step)))


def test_only_the_groups_needed_for_the_next_weights_and_the_extra_one_are_opened(over):
    assert len(Group.open(over, "e", 60, 100, 0)) == 2


def test_first_complete_groups_are_trained_and_the_rest_used_for_the_next_update(
    over, judged, trained, finish_first
):
    judged(over, WIDE, WIDE)
    assert draws(trained(over)) == [1, 2]
    judged(over, WIDE, WIDE, version=1)
    assert stragglers(over) == 1 and plan_step(over, over.fence) is None
    assert describe_missing_groups(over) == "1 delayed group, too old for later steps"
    finish_first(over)
    assert stragglers(over) == 0 and draws(plan_step(over, over.fence)) == [0, 3]
    assert not Experience.objects.filter(state="dropped").exists()
    found = {
        check.name: list(check.find())
        for check in CHECKS
        if check.name == "trained experiences are fresh and rewarded"
    }
    assert found == {"trained experiences are fresh and rewarded": []}


def test_dropped_straggler_is_no_longer_waited_for(over, judged, trained):
    judged(over, WIDE, WIDE)
    trained(over)
    judged(over, WIDE, WIDE, version=1)
    over.groups.get(draw_index=0).drop("the engine died")
    assert draws(plan_step(over, over.fence)) == [3, 4]


def test_groups_waiting_for_raters_do_not_delay_the_update(over, judged, trained):
    judged(over, WIDE, WIDE)
    trained(over)
    judged(over, WIDE, WIDE, version=1)
    over.groups.filter(draw_index=0).update(state=Group.State.WAITING)
    assert draws(plan_step(over, over.fence)) == [3, 4]


def test_update_waits_for_no_straggler_without_over_rollout(new_run, judged, trained):
    run = new_run(groups_per_step=2, max_staleness=1)
    assert run.claim_trainer("t", 60)
    Group.open(run, "e", 60, 1, 0)
    judged(run, WIDE, WIDE)
    trained(run)
    judged(run, WIDE, WIDE, version=1)
    assert stragglers(run) == 0 and draws(plan_step(run, run.fence)) == [3, 4]


@pytest.fixture
def finish_first(judge_claimed):
    """Complete the straggler: sampled by version 0, judged and admitted."""

    def finish(run: Run) -> None:
        group = run.groups.get(draw_index=0)
        rollouts = list(Rollout.objects.filter(group=group).order_by("sample_index"))
        Group.finish_rollouts(
            {group.pk: group.claimed},
            [Outcome(one.pk, tokens_of("12345"), "12345", "stop") for one in rollouts],
        )
        judge_claimed({rollout.pk: value for rollout, value in zip(rollouts, WIDE, strict=True)})

    return finish
