"""Operators on tasks: tasks that they leave out of a run are never drawn and are recorded once, and
pipelines that would leave no task are refused.
"""

import threading

import pytest
from django.db import connection, transaction

from apps.dashboard.reconciliation import reconcile
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.ledger import operator_counts_match_the_rows
from apps.pipelines.models import OperatorCount
from apps.pipelines.tasks import build_task_filter
from apps.rollouts import task_filter
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group
from apps.rollouts.task_filter import NothingToDraw
from apps.rollouts.task_requests import TaskRequest
from apps.runs.models import Run
from apps.tasksets.models import DifficultyScale, TaskDifficulty, Taskset


def step(operator: str, **options: object) -> dict:
    return {"operator": operator, "stage": "tasks", "options": options}


def drawn(run: Run, groups: int) -> list[int]:
    """Open the next groups and return the indexes of their tasks."""
    sieve = build_task_filter(run.settings)
    return [
        group.task.index for group in Group.open(run, "e", 60, groups, run.published_version, sieve)
    ]


def left_out(run: Run) -> list[tuple[int, str]]:
    return list(run.left_out.order_by("task__index").values_list("task__index", "reason"))


def looks(run: Run) -> list[tuple[str, int, int]]:
    return list(OperatorCount.objects.filter(run=run).values_list("operator", "given", "kept"))


@pytest.fixture
def levelled(taskset: Taskset) -> None:
    """Give the tasks 0 to 3 the levels 3, 1, 4, 2."""
    for index, level in enumerate((3, 1, 4, 2)):
        taskset.tasks.filter(index=index).update(meta={"level": level})


MIDDLE = step("difficulty_band", scale="level", low=2, high=3)
REASONS = [
    (1, "difficulty_band: level is 1, below 2"),
    (2, "difficulty_band: level is 4, above 3"),
]


@pytest.mark.parametrize(
    "selection",
    [
        "sequential",
        "shuffle",
        "random",
        "prioritized",
        "bots",
        "people",
        {"name": "easy_to_hard", "scale": "level"},
        {"name": "pools", "scale": "level", "pools": [{"max_value": 2, "share": 1}, {"share": 2}]},
    ],
)
def test_left_out_tasks_are_never_drawn_and_have_a_reason(new_run, levelled, selection):
    run = new_run(max_staleness=9, selection=selection, pipeline=[MIDDLE])
    assert set(drawn(run, 16)) == {0, 3} and left_out(run) == REASONS
    assert set(LeftOut.objects.values_list("by", "operator")) == {(None, "difficulty_band")}


@pytest.mark.parametrize("selection", ["sequential", "shuffle", "random"])
def test_draws_are_the_same_as_if_tasks_had_been_left_out_before(new_run, levelled, selection):
    run = new_run(max_staleness=9, selection=selection, pipeline=[MIDDLE])
    other = new_run(max_staleness=9, selection=selection)
    for index in (1, 2):
        LeftOut.objects.create(
            run=other, task=other.taskset.tasks.get(index=index), reason="by hand"
        )
    assert drawn(run, 3) + drawn(run, 9) == drawn(other, 12)


def test_checked_tasks_are_counted_and_left_out_tasks_count_once(new_run, levelled):
    run = new_run(max_staleness=9, selection="sequential", pipeline=[MIDDLE])
    assert drawn(run, 4) == [0, 3, 3, 3]  # draws 1 and 2 took the next allowed task
    assert looks(run) == [("difficulty_band", 4, 2)]
    drawn(run, 4)
    assert (
        looks(run) == [("difficulty_band", 6, 4)]
        and {name: said for name, said in reconcile().items() if said} == {}
    )


def test_reconcile_reports_a_count_without_its_rows(new_run, levelled):
    run = new_run(max_staleness=9, selection="sequential", pipeline=[MIDDLE])
    drawn(run, 4)
    run.left_out.filter(task__index=1).delete()
    assert list(operator_counts_match_the_rows()) == [
        f"{run}: difficulty_band dropped 2 according to its count, 1 according to the rows"
    ]


def test_rolled_back_opening_leaves_no_rows_and_repeats_with_the_same_draws(new_run, levelled):
    run = new_run(max_staleness=9, pipeline=[MIDDLE])
    with transaction.atomic():
        lost = drawn(run, 5)
        transaction.set_rollback(True)
    assert left_out(run) == [] and looks(run) == []
    assert drawn(run, 5) == lost and left_out(run) == REASONS


def test_tasks_requested_by_people_are_filtered_too(new_run, levelled, alice):
    run = new_run(max_staleness=9, selection="people", pipeline=[MIDDLE])
    for index in (2, 3):
        TaskRequest.submit(run, run.taskset, index, alice)
    first, *_ = drawn(run, 2)
    assert first == 3 and dict(left_out(run))[2] == REASONS[1][1]
    assert list(TaskRequest.objects.order_by("pk").values_list("draw_index", flat=True)) == [
        None,
        0,
    ]


def test_opening_checks_a_limited_number_of_tasks_and_the_next_continues(
    new_run, levelled, monkeypatch
):
    monkeypatch.setattr(task_filter, "MAX_CHECKS", 1)
    run = new_run(
        max_staleness=9, selection={"name": "easy_to_hard", "scale": "level"}, pipeline=[MIDDLE]
    )
    assert drawn(run, 1) == [] and left_out(run) == REASONS[:1] and run.groups.count() == 0
    assert drawn(run, 1) == [3]


def test_run_without_drawable_tasks_is_refused_and_leaves_out_no_task(new_run, levelled):
    run = new_run(max_staleness=9, pipeline=[step("difficulty_band", scale="level", low=9)])
    with pytest.raises(
        NothingToDraw, match="no task of sort would be left to sample: difficulty_band: level is "
    ):
        drawn(run, 4)
    assert left_out(run) == [] and run.groups.count() == 0


def test_pipeline_that_leaves_no_task_is_refused_when_the_run_is_created(
    project, taskset, levelled, plan
):
    said = find_pipeline_problems(
        plan(pipeline=[step("encoding"), step("difficulty_band", scale="level", low=9)]), project
    )
    assert said == {
        "pipeline.0": "leaves no task of sort to sample: difficulty_band: level is 2, below 9"
    }
    assert find_pipeline_problems(plan(pipeline=[MIDDLE]), project) == {}
    unknown = find_pipeline_problems(
        plan(pipeline=[step("difficulty_band", scale="lewel", low=1)]), project
    )
    assert "the task has no number 'lewel'" in unknown["pipeline.0"]


def test_operator_that_cannot_filter_tasks_is_refused_with_that_stage(project, taskset, plan):
    said = find_pipeline_problems(plan(pipeline=[step("success_band")]), project)
    assert said == {
        "pipeline.0.stage": "success_band works on groups; choose one of these or omit `stage`"
    }


def test_difficulty_scale_takes_precedence_over_task_metadata(new_run, levelled, taskset):
    scale = DifficultyScale.objects.create(taskset=taskset, name="level", source="tried")
    TaskDifficulty.objects.create(scale=scale, task=taskset.tasks.get(index=2), value=2.5, place=0)
    run = new_run(max_staleness=9, pipeline=[MIDDLE])
    assert set(drawn(run, 8)) == {0, 2, 3}


def test_tasks_of_an_evaluation_set_are_not_sampled(new_run, project, taskset):
    test = Taskset.objects.create(
        project=project, slug="test", title="t", source="t", size=1, digest="d" * 64
    )
    test.tasks.create(index=0, prompt=[{"role": "user", "content": "54321"}], digest="e" * 64)
    run = new_run(max_staleness=9, pipeline=[step("contaminated", tasksets=["test"])])
    assert set(drawn(run, 8)) == {0, 2, 3}
    assert left_out(run) == [(1, "contaminated: identical to task 0 of evaluation set test")]


@pytest.mark.django_db(transaction=True)
def test_concurrent_explorers_leave_out_each_task_once(new_run, levelled):
    run = new_run(max_staleness=9, pipeline=[MIDDLE])
    start = threading.Barrier(4)
    errors = []

    def explore() -> None:
        start.wait()
        try:
            drawn(run, 2)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=explore) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and left_out(run) == REASONS
    assert (
        set(run.groups.values_list("task__index", flat=True)) == {0, 3} and run.groups.count() == 8
    )
    assert list(operator_counts_match_the_rows()) == []
