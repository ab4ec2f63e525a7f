"""Too few rewards count as a failure of the task if a scorer gave none or a rollout failed, and not
if people did not rate.
"""

import pytest

from apps.accounts.models import AuditEntry
from apps.pipelines.again import refine_again
from apps.pipelines.refining import refine
from apps.rollouts.excluded_tasks import FailedGroup, LeftOut, quarantined
from apps.rollouts.models import Group, Outcome, Rollout
from tests.conftest import tokens_of
from tests.pipelines.test_pipeline_of_a_run import breaks, step, violations

__all__ = ["breaks"]  # a fixture


def failed_at(run) -> list[int]:
    return list(FailedGroup.objects.filter(run=run).order_by("pk").values_list("group", flat=True))


def test_missing_reward_of_a_scorer_counts_as_failure_of_the_task(new_run, judge):
    run = new_run(task_attempts=1)
    lacking, good = judge(run, (None, 1.0), (0.0, 1.0))
    assert "1 of 2 rollouts have a reward" in lacking.reason and failed_at(run) == [lacking.pk]
    assert (
        [row.task for row in quarantined(run)] == [lacking.task]
        and good.task != lacking.task
        and violations() == []
    )


def test_group_with_equal_rewards_is_no_failure_of_the_task(new_run, judge):
    run = new_run(algorithm={"name": "dapo"}, task_attempts=1)
    (dead,) = judge(run, (1.0, 1.0))
    assert dead.state == Group.State.DROPPED and failed_at(run) == [] and violations() == []


def test_group_removed_by_an_operator_is_no_failure_of_the_task(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", "groups", threshold=2.0)], task_attempts=1)
    (dropped,) = judge(run, (0.0, 1.0))
    assert dropped.state == Group.State.DROPPED and failed_at(run) == []


def test_failed_rollout_counts_as_failure_of_the_task(new_run):
    run = new_run(task_attempts=1)
    (group,) = Group.open(run, "e", 60, 1, 0)
    first, second = group.rollouts.order_by("sample_index")
    outcomes = [
        Outcome(first.pk, tokens_of("1"), "1", "stop"),
        Outcome(second.pk, None, "", "environment failed: it crashed"),
    ]
    Group.finish_rollouts({group.pk: group.claimed}, outcomes)
    Group.objects.filter(pk=group.pk).update(state=Group.State.JUDGED)
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    assert failed_at(run) == [group.pk] and LeftOut.objects.get().task == group.task


def test_missing_human_ratings_are_no_failure_of_the_task(new_run, finish):
    run = new_run(rewards=[], people={"per_group": 2, "at_deadline": "drop"}, task_attempts=1)
    (group,) = finish(run)
    Group.objects.filter(pk=group.pk).update(state=Group.State.JUDGED)
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    group.refresh_from_db()
    assert "0 of 2 rollouts have a reward" in group.reason and failed_at(run) == []
    assert Rollout.objects.filter(group=group, state="finished").count() == 2


def test_operator_error_counts_as_failure_until_its_groups_are_refined_again(
    new_run, judge, breaks, alice
):
    run = new_run(pipeline=[step("encoding")], group_attempts=1, task_attempts=1)
    (group,) = judge(run, (0.25, 1.0))
    assert (
        failed_at(run) == [group.pk]
        and LeftOut.objects.get().task == group.task
        and violations() == []
    )
    breaks["is_broken"] = False
    assert refine_again(run, alice) == 1
    assert failed_at(run) == [] and not LeftOut.objects.exists() and violations() == []
    (told,) = run.topic.events.filter(kind="task_released").values_list("payload", flat=True)
    assert told == {"taskset": "sort", "index": group.task.index, "by": "alice"}
    assert AuditEntry.objects.get(action="groups refined again").by == alice


def test_refining_again_keeps_tasks_that_failed_for_other_reasons_in_quarantine(
    new_run, judge, breaks
):
    run = new_run(pipeline=[step("encoding")], group_attempts=1, task_attempts=1)
    broken, lacking = judge(run, (0.25, 1.0), (None, 1.0))
    breaks["is_broken"] = False
    refine_again(run)
    assert (
        failed_at(run) == [lacking.pk]
        and LeftOut.objects.get().task == lacking.task
        and broken.task != lacking.task
    )


@pytest.mark.parametrize("attempts, count", [(1, 1), (2, 0)])
def test_run_configures_the_number_of_allowed_failures(new_run, judge, attempts, count):
    run = new_run(task_attempts=attempts)
    judge(run, (None, None))
    assert LeftOut.objects.count() == count
