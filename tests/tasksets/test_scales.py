"""A difficulty scale has one value for each task; a task without a number is refused, and the
error lists the existing scales.
"""

import pytest
from django.db import connection

from apps.tasksets import scales
from apps.tasksets.models import DifficultyScale, Task, TaskDifficulty
from apps.tasksets.scales import begin_scale, find_scale, finish_scale, save_values, without_number


@pytest.fixture
def levels(taskset):
    """Return a function that writes these values into the meta of the four tasks."""

    def write(*values: object, name: str = "level") -> None:
        for index, value in enumerate(values):
            Task.objects.filter(taskset=taskset, index=index).update(
                meta={name: value, "word": "a", "right": True}
            )

    return write


def order(scale: DifficultyScale) -> list[int]:
    return [task.index for task in scale.at(range(scale.difficulties.count()))]


def test_tasks_are_ordered_by_their_number_and_then_by_index(taskset, levels):
    levels(3, 1.5, 1.5, -2)
    assert order(find_scale(taskset, "level")) == [3, 1, 2, 0]


def test_scale_is_created_once(taskset, levels):
    levels(4, 3, 2, 1)
    assert (
        find_scale(taskset, "level") == find_scale(taskset, "level")
        and TaskDifficulty.objects.count() == 4
    )


def test_scale_counts_tasks_up_to_a_number(taskset, levels):
    levels(1, 2, 2, 5)
    scale = find_scale(taskset, "level")
    assert [scale.up_to(value) for value in (0, 1, 2, 4.9, 5, 9)] == [0, 1, 3, 3, 4, 4]


@pytest.mark.parametrize("lacking", ["3", None, True, [1]])
def test_task_without_the_number_is_reported(taskset, levels, lacking):
    levels(1, 2, lacking, 4)
    with pytest.raises(
        ValueError, match=r"1 of 4 tasks of 'sort' .* for example task 2; .*: level$"
    ):
        find_scale(taskset, "level")
    assert not DifficultyScale.objects.exists()


def test_error_lists_the_existing_scales(taskset, levels):
    levels(1, 2, 3, 4)
    find_scale(taskset, "level")
    with pytest.raises(ValueError, match=r"scales: level$"):
        find_scale(taskset, "words")


def test_tasks_without_any_meta_are_refused(taskset):
    Task.objects.filter(taskset=taskset).update(meta=[])
    with pytest.raises(ValueError, match=r"4 of 4 .* none"):
        find_scale(taskset, "level")


def test_number_too_large_for_a_float_is_refused(taskset, levels):
    levels(1, 2, 3, 10**400)
    with pytest.raises(ValueError, match="too large"):
        find_scale(taskset, "level")


def test_an_estimated_scale_is_ready_when_every_task_has_a_number(taskset):
    scale = begin_scale(taskset, "hard", "tries")
    tasks = [task.pk for task in taskset.tasks.order_by("index")]
    save_values(scale, {tasks[0]: 0.5, tasks[2]: 0.25})
    with pytest.raises(ValueError, match="2 of 4 values so far"):
        find_scale(taskset, "hard")
    assert without_number(scale) == [tasks[1], tasks[3]] and finish_scale(scale) == 2
    save_values(begin_scale(taskset, "hard", "tries"), {tasks[1]: 0.5, tasks[0]: 0.9})
    assert finish_scale(scale, otherwise=0.0) == 0
    assert order(find_scale(taskset, "hard")) == [3, 2, 0, 1]


def test_estimate_cannot_change_its_source_or_reuse_the_name_of_a_ready_scale(taskset, levels):
    begin_scale(taskset, "hard", "tries of a")
    with pytest.raises(ValueError, match="was started with tries of a"):
        begin_scale(taskset, "hard", "tries of b")
    levels(1, 2, 3, 4)
    find_scale(taskset, "level")
    with pytest.raises(ValueError, match="choose another name"):
        begin_scale(taskset, "level", "tries of a")


def test_new_scale_is_in_the_planner_statistics(taskset, levels, monkeypatch):
    monkeypatch.setattr(scales, "MANY_TASKS", 1)
    levels(*range(taskset.size))
    scale = find_scale(taskset, "level")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT most_common_vals::text::bigint[] FROM pg_stats"
            " WHERE tablename = 'tasksets_taskdifficulty' AND attname = 'scale_id'"
        )
        [known] = cursor.fetchone()
    assert scale.pk in known
