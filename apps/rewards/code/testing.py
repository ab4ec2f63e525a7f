"""Creation of a taskset with tests from another one: given tests, or made from its meta."""

from collections.abc import Callable, Iterator

from apps.rewards.code import making
from apps.rewards.code.making import Thresholds
from apps.tasksets.code_tests import normal_form
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset

USED = (
    "generators",
    "submissions",
)  # of meta: what tests are made of, and is not needed once they are
SHOWN = 5  # dropped cases of a task that are told
Tell = Callable[[str], None]


def with_tests(
    taskset: Taskset,
    origin: Origin,
    thresholds: Thresholds,
    progress: Callable[[int], None],
    tell: Tell,
) -> Taskset:
    """Return a new taskset with tests; the old one is not changed.

    Tasks that get no tests are left out, and `tell` is called with the reason. Raises ValueError
    when no task is left, NoSandbox, and IntegrityError when the slug is taken.
    """
    return store_taskset(origin, _rows(taskset, thresholds, progress, tell))


def _rows(
    taskset: Taskset, thresholds: Thresholds, progress: Callable[[int], None], tell: Tell
) -> Iterator[TaskRow]:
    for number, task in enumerate(
        taskset.tasks.order_by("index").iterator(chunk_size=100), start=1
    ):
        row = _row(task, thresholds, tell)
        progress(number)
        if row is not None:
            yield row


def _row(task: Task, thresholds: Thresholds, tell: Tell) -> TaskRow | None:
    if normal_form(task.answer) is not None:
        return TaskRow(task.prompt, task.answer, task.meta, task.follow_ups, domain=task.domain)
    try:
        generators, submissions = making.read_submissions(task.meta)
        result = making.make_tests(
            generators, submissions, task.answer.get("function", ""), thresholds
        )
    except ValueError as error:
        tell(f"task {task.index}: skipped: {error}")
        return None
    summary = (
        f"{len(result.tests.cases)} cases kept, {len(result.dropped)} dropped, {result.passed} of"
        f" {len(submissions)} submissions pass"
    )
    tell(f"task {task.index}: {f'left out: {result.refused}; ' if result.refused else ''}{summary}")
    for reason in result.dropped[:SHOWN]:
        tell(f"  {reason}")
    if result.refused:
        return None
    meta = {name: value for name, value in task.meta.items() if name not in USED}
    return TaskRow(
        task.prompt, {**task.answer, **result.answer}, meta, task.follow_ups, domain=task.domain
    )
