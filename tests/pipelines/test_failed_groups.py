"""Too few rewards count against the task where a machine had none to give or an answer failed, and
not where people were silent.
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


def test_a_scorer_that_has_no_reward_to_give_has_failed_at_the_task(new_run, judge):
    run = new_run(task_attempts=1)
    lacking, good = judge(run, (None, 1.0), (0.0, 1.0))
    assert "1 of 2 rollouts have a reward" in lacking.reason and failed_at(run) == [lacking.pk]
    assert (
        [row.task for row in quarantined(run)] == [lacking.task]
        and good.task != lacking.task
        and violations() == []
    )


def test_rewards_that_are_there_and_teach_nothing_are_no_failure(new_run, judge):
    run = new_run(algorithm={"name": "dapo"}, task_attempts=1)
    (dead,) = judge(run, (1.0, 1.0))
    assert dead.state == Group.State.DROPPED and failed_at(run) == [] and violations() == []


def test_what_an_operator_leaves_out_is_no_failure(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", "groups", threshold=2.0)], task_attempts=1)
    (dropped,) = judge(run, (0.0, 1.0))
    assert dropped.state == Group.State.DROPPED and failed_at(run) == []


def test_an_answer_that_failed_has_failed_at_the_task(new_run):
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


def test_people_who_said_nothing_are_no_failure(new_run, finish):
    run = new_run(rewards=[], people={"per_group": 2, "at_deadline": "drop"}, task_attempts=1)
    (group,) = finish(run)
    Group.objects.filter(pk=group.pk).update(state=Group.State.JUDGED)
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    group.refresh_from_db()
    assert "0 of 2 rollouts have a reward" in group.reason and failed_at(run) == []
    assert Rollout.objects.filter(group=group, state="finished").count() == 2


def test_an_operator_that_breaks_has_failed_until_its_groups_are_refined_again(
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


def test_refining_again_leaves_what_failed_for_another_reason_in_quarantine(new_run, judge, breaks):
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
def test_how_many_failures_are_allowed_is_the_runs_to_say(new_run, judge, attempts, count):
    run = new_run(task_attempts=attempts)
    judge(run, (None, None))
    assert LeftOut.objects.count() == count
