"""Demonstrations, preferences and thumbs for the sort tasks, for tests that learn from them."""

from apps.feedback.models import Demonstration, Preference, Thumb
from apps.tasksets.models import Task, Taskset


def demonstrate(taskset: Taskset, answers: int = 1) -> list[Demonstration]:
    """Create `answers` demonstrations for each task: the right one first, then longer ones."""
    return Demonstration.objects.bulk_create(
        lesson(Demonstration, task, answer=task.answer["sorted"] + "0" * n)
        for n in range(answers)
        for task in taskset.tasks.order_by("index")
    )


def prefer(taskset: Taskset, margins: tuple[float | None, ...] = (None,)) -> list[Preference]:
    """Create preferences of the right answer over the question, or longer echoes of it, one for
    each margin and task.
    """
    return Preference.objects.bulk_create(
        lesson(
            Preference,
            task,
            chosen=task.answer["sorted"],
            rejected=task.question + "9" * int(4 * (margin or 0)),
            margin=margin,
        )
        for margin in margins
        for task in taskset.tasks.order_by("index")
    )


def thumb(taskset: Taskset) -> list[Thumb]:
    """Create a thumb up for the right answer and one down for the question, for each task."""
    return Thumb.objects.bulk_create(
        lesson(Thumb, task, completion=text, is_up=is_up)
        for task in taskset.tasks.order_by("index")
        for text, is_up in ((task.answer["sorted"], True), (task.question + "9", False))
    )


def lesson(kind, task: Task, **said):
    return kind(
        project=task.taskset.project, task=task, prompt=task.prompt, source="test", **said
    ).keyed()
