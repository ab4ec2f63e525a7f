"""Groups are opened for the tasks that the run's selection chooses, and a draw that was not committed is made again alike."""

import pytest
from django.db import transaction

from apps.rollouts.models import Group, LeftOut
from apps.tasksets.drawing import position


def drawn(run, groups: int = 4) -> list[int]:
    """Indexes of the tasks of the next groups."""
    return [group.task.index for group in Group.open(run, "e", 60, groups, run.published_version)]


def test_without_a_word_a_run_draws_as_ever(new_run):
    run = new_run(max_staleness=9, seed=7)
    assert drawn(run, 12) == [position(draw, 4, 7) for draw in range(12)]


def test_a_shuffle_asks_nothing_but_what_is_left_out_and_the_tasks(run, django_assert_num_queries):
    # The savepoint, the run, its taskset, its counter, what is left out, tasks, groups, rollouts, the end of the savepoint.
    with django_assert_num_queries(9):
        Group.open(run, "e", 60, 1, run.published_version)


def test_tasks_in_their_order(new_run):
    run = new_run(max_staleness=9, selection="sequential")
    assert drawn(run, 3) + drawn(run, 3) == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("name", ["sequential", "shuffle", "random"])
def test_what_is_left_out_is_not_drawn(new_run, alice, name):
    run = new_run(max_staleness=9, selection=name)
    LeftOut.objects.create(run=run, task=run.taskset.tasks.get(index=1), reason="too easy", by=alice)
    assert set(drawn(run, 16)) == {0, 2, 3}


@pytest.mark.parametrize("name", ["sequential", "shuffle", "random"])
def test_draws_that_were_rolled_back_are_made_again_alike(new_run, name):
    run = new_run(max_staleness=9, selection=name)
    drawn(run, 3)
    with transaction.atomic():
        lost = drawn(run, 5)
        transaction.set_rollback(True)
    assert drawn(run, 2) + drawn(run, 3) == lost
