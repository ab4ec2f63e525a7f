"""Groups are opened for the tasks that the run's selection chooses, and a draw that was rolled
back is repeated identically.
"""

import pytest
from django.db import transaction

from apps.accounts.models import AuditEntry
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group
from apps.rollouts.task_requests import TaskRequest
from apps.runs.models import NotPossible
from apps.tasksets.shuffled_draws import draw_position


def drawn(run, groups: int = 4) -> list[int]:
    """Return the task indexes of the next groups."""
    return [group.task.index for group in Group.open(run, "e", 60, groups, run.published_version)]


def test_run_without_a_selection_shuffles_its_tasks(new_run):
    run = new_run(max_staleness=9, seed=7)
    assert drawn(run, 12) == [draw_position(draw, 4, 7) for draw in range(12)]


def test_opening_groups_in_a_shuffle_takes_ten_queries(run, django_assert_num_queries):
    # The savepoint, the worker's signal, the run, its taskset, its counter, left-out tasks, tasks,
    # groups, rollouts, the end of the savepoint.
    with django_assert_num_queries(10):
        Group.open(run, "e", 60, 1, run.published_version)


def test_sequential_selection_draws_tasks_in_order(new_run):
    run = new_run(max_staleness=9, selection="sequential")
    assert drawn(run, 3) + drawn(run, 3) == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("name", ["sequential", "shuffle", "random"])
def test_left_out_tasks_are_not_drawn(new_run, alice, name):
    run = new_run(max_staleness=9, selection=name)
    LeftOut.objects.create(
        run=run, task=run.taskset.tasks.get(index=1), reason="too easy", by=alice
    )
    assert set(drawn(run, 16)) == {0, 2, 3}


@pytest.mark.parametrize("name", ["sequential", "shuffle", "random"])
def test_rolled_back_draws_are_repeated_identically(new_run, name):
    run = new_run(max_staleness=9, selection=name)
    drawn(run, 3)
    with transaction.atomic():
        lost = drawn(run, 5)
        transaction.set_rollback(True)
    assert drawn(run, 2) + drawn(run, 3) == lost


@pytest.fixture
def levelled(taskset):
    """Give the tasks 0 to 3 the levels 3, 1, 4, 2."""
    for index, level in enumerate((3, 1, 4, 2)):
        taskset.tasks.filter(index=index).update(meta={"level": level})


ORDERED = {
    "easy_to_hard": {"name": "easy_to_hard", "scale": "level"},
    "curriculum": {"name": "curriculum", "scale": "level", "from_step": 2, "hard_share": 0.5},
    "pools": {
        "name": "pools",
        "scale": "level",
        "pools": [{"max_value": 1, "share": 1}, {"max_value": 3, "share": 0}, {"share": 2}],
    },
}


def test_easy_to_hard_draws_by_level_and_then_starts_over(new_run, levelled):
    run = new_run(max_staleness=9, selection=ORDERED["easy_to_hard"])
    assert drawn(run, 6) == [1, 3, 0, 2, 1, 3]


def test_easy_to_hard_is_reversed_if_higher_levels_are_easier(new_run, levelled, alice):
    run = new_run(max_staleness=9, selection={**ORDERED["easy_to_hard"], "higher": "easier"})
    assert drawn(run, 4) == [2, 0, 3, 1]
    LeftOut.objects.create(
        run=run, task=run.taskset.tasks.get(index=2), reason="too easy", by=alice
    )
    assert drawn(run, 4) == [0, 0, 3, 1]


def test_curriculum_draws_only_hard_tasks_from_its_configured_step_on(new_run, levelled):
    run = new_run(max_staleness=9, selection=ORDERED["curriculum"])
    assert sorted(drawn(run, 4)) == [0, 1, 2, 3] and sorted(drawn(run, 4)) == [0, 0, 2, 2]


def test_pools_share_the_draws(new_run, levelled):
    run = new_run(max_staleness=9, selection=ORDERED["pools"])
    assert sorted(drawn(run, 6)) == [1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("name", ORDERED)
def test_rolled_back_draws_by_difficulty_are_repeated_identically(new_run, levelled, alice, name):
    run = new_run(max_staleness=9, selection=ORDERED[name])
    LeftOut.objects.create(
        run=run, task=run.taskset.tasks.get(index=3), reason="too easy", by=alice
    )
    with transaction.atomic():
        lost = drawn(run, 7)
        transaction.set_rollback(True)
    assert drawn(run, 3) + drawn(run, 4) == lost and 3 not in lost


@pytest.fixture
def asked_run(new_run):
    return new_run(max_staleness=99, selection="people", seed=7)


def ask(run, index: int, by) -> bool:
    return TaskRequest.submit(run, run.taskset, index, by)


def test_requested_tasks_are_drawn_first_and_the_shuffle_then_continues(asked_run, alice):
    order = [draw_position(draw, 4, 7) for draw in range(8)]
    assert drawn(asked_run, 2) == order[:2]
    assert ask(asked_run, order[0], alice) and ask(asked_run, order[3], alice)
    assert (
        AuditEntry.objects.filter(
            action="task requested", target=asked_run.address, by=alice
        ).count()
        == 2
    )
    assert drawn(asked_run, 1) == [order[0]]
    assert drawn(asked_run, 3) == [order[3], *order[2:4]]
    assert drawn(asked_run, 4) == order[4:]
    assert list(asked_run.task_requests.order_by("pk").values_list("draw_index", flat=True)) == [
        2,
        3,
    ]


def test_rolled_back_draws_of_requested_tasks_are_repeated_identically(asked_run, alice):
    ask(asked_run, 3, alice)
    ask(asked_run, 1, alice)
    with transaction.atomic():
        lost = drawn(asked_run, 6)
        transaction.set_rollback(True)
    assert asked_run.task_requests.waiting().count() == 2
    assert drawn(asked_run, 1) + drawn(asked_run, 5) == lost and lost[:2] == [3, 1]


def test_task_is_queued_once_and_may_be_requested_again_after_its_draw(asked_run, alice, bob):
    assert ask(asked_run, 3, alice) and not ask(asked_run, 3, bob)
    assert drawn(asked_run, 1) == [3] and ask(asked_run, 3, bob)


def test_requested_task_that_is_then_left_out_is_not_drawn(asked_run, alice):
    ask(asked_run, 3, alice)
    LeftOut.objects.create(
        run=asked_run, task=asked_run.taskset.tasks.get(index=3), reason="too easy", by=alice
    )
    assert 3 not in drawn(asked_run, 4)
    with pytest.raises(NotPossible, match="left out"):
        ask(asked_run, 3, alice)


def test_run_with_another_selection_accepts_no_task_requests(run, alice):
    with pytest.raises(NotPossible, match="set `selection: people` first"):
        ask(run, 0, alice)


def test_missing_tasks_and_ended_runs_accept_no_task_requests(asked_run, alice):
    with pytest.raises(NotPossible, match="no task 4; the last is 3"):
        ask(asked_run, 4, alice)
    asked_run.stop()
    with pytest.raises(NotPossible, match="samples no more tasks"):
        ask(asked_run, 0, alice)


@pytest.fixture
def mixed(taskset):
    """Give the tasks 0 to 3 the domains math, none, code, math."""
    for index, domain in enumerate(("math", "", "code", "math")):
        taskset.tasks.filter(index=index).update(domain=domain)


def test_domains_share_the_draws(new_run, mixed):
    run = new_run(
        max_staleness=9,
        selection={
            "name": "mixture",
            "parts": [{"domain": "math", "share": 3}, {"domain": "code"}],
        },
    )
    taken = drawn(run, 8)
    assert sorted(taken) == [0, 0, 0, 2, 2, 3, 3, 3]
    assert [taken[:4].count(2), taken[4:].count(2)] == [1, 1]


def test_mixture_may_include_tasks_without_a_domain_and_skips_other_domains(new_run, mixed, alice):
    run = new_run(
        max_staleness=9,
        selection={"name": "mixture", "parts": [{"domain": ""}, {"domain": "math"}]},
    )
    LeftOut.objects.create(
        run=run, task=run.taskset.tasks.get(index=3), reason="too easy", by=alice
    )
    with transaction.atomic():
        lost = drawn(run, 5)
        transaction.set_rollback(True)
    assert drawn(run, 2) + drawn(run, 3) == lost and set(lost) == {0, 1}
