"""In a serving run only callers open groups, each its own, within the run's bound or answer-only
beyond it.
"""

import pytest

from apps.dashboard.reconciliation.groups import groups_match_their_counters
from apps.rollouts.models import Group, Rollout
from apps.rollouts.serving import NoRoom, leave_unheard, open_for_caller
from apps.runs.models import Run
from apps.tasksets.rows import TaskRow, user_message
from tests.serving import SERVED

ASKED = TaskRow(user_message("Why is the sky blue?"))


@pytest.fixture
def served(new_run):
    """Return a function that creates a synchronous serving run with two groups per step."""
    return lambda **serve: new_run(**SERVED, serve=serve, max_staleness=0)


def test_callers_prompt_becomes_the_task_of_its_own_group(served):
    run = served()
    rollout = open_for_caller(run, ASKED)
    task = rollout.group.task
    assert (task.prompt, task.taskset_id, task.index) == (ASKED.prompt, run.taskset_id, 0)
    run.taskset.refresh_from_db()
    assert (run.taskset.slug, run.taskset.size, run.taskset.grows) == ("asked", 1, True)
    assert (rollout.group.draw_index, rollout.group.size, rollout.group.lease_until) == (0, 1, None)


def test_explorer_opens_no_groups_in_a_serving_run(served):
    run = served()
    assert Group.open(run, "e", 60, 10, run.published_version) == []


def test_request_beyond_the_bound_opens_and_stores_nothing(served):
    run = served()
    for _ in range(2):
        open_for_caller(run, ASKED)
    with pytest.raises(NoRoom, match="max_staleness"):
        open_for_caller(run, ASKED)
    assert (run.groups.count(), run.taskset.tasks.count()) == (2, 2)


def test_answer_only_requests_beyond_the_bound_take_no_room(served):
    run = served(over_bound="answer_only")
    opened = [open_for_caller(run, ASKED).group for _ in range(4)]
    assert [group.answer_only for group in opened] == [False, False, True, True]
    Run.objects.filter(pk=run.pk).update(published_version=1)
    assert [open_for_caller(run, ASKED).group.answer_only for _ in range(3)] == [False, False, True]
    assert list(groups_match_their_counters()) == []


def test_paused_run_refuses_requests(served):
    run = served(over_bound="answer_only")
    run.pause()
    with pytest.raises(NoRoom, match="paused"):
        open_for_caller(run, ASKED)


def test_group_begun_by_another_explorer_is_dropped_with_the_reason(served):
    run = served()
    kept = open_for_caller(run, ASKED).group
    left = open_for_caller(run, ASKED).group
    Group.objects.filter(pk=left.pk).update(fence=1)
    claimed = Group.objects.claim(Group.State.SAMPLING, "e", 60, 10, run)
    assert [group.pk for group in leave_unheard(claimed)] == [kept.pk]
    left.refresh_from_db()
    assert (left.state, left.reason) == (
        "dropped",
        "its explorer stopped responding, and the caller got an error",
    )
    assert (
        Rollout.objects.filter(group=left).count() == 1
        and list(groups_match_their_counters()) == []
    )
