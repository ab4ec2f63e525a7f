"""Operators over tasks: before a run samples them, and before an import stores them.

Pure but for the data that operators look up.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from apps.accounts.models import Project
from apps.pipelines.applying import OperatorFailed, OperatorResult, apply, stands_at
from apps.pipelines.asking import guesses_at, list_operator_questions
from apps.pipelines.data_juicer.asking import ASK, tasks_filtered
from apps.pipelines.data_juicer.process import FILTERS, NoAnswer
from apps.pipelines.evaluation_sets import tasks_also_in
from apps.pipelines.models import count
from apps.pipelines.operators import find_operator
from apps.pipelines.operators.contract import TASKS, OperatorOptions, Sample
from apps.rollouts.task_filter import Sieve
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import Task, TaskDifficulty
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import WhyNot
from apps.tasksets.taskset_overlap import said_in

AnyTask = Task | TaskRow
# Field of a Sample → a function that returns it for each task of a project, given the options of
# all operators that need it.
Answer = Callable[[int, Sequence[Any], Sequence[Any]], list[Any]]


def _guessed(
    project: int, tasks: Sequence[Task], options: Sequence[OperatorOptions]
) -> list[tuple[int, int] | None]:
    return guesses_at([task.pk for task in tasks])


def _scales(project: int, tasks: Sequence[Task], options: Sequence[Any]) -> list[dict[str, float]]:
    """Return the estimated numbers of each task, by the names of the scales that operators use."""
    rows = TaskDifficulty.objects.filter(
        task__in=[task.pk for task in tasks], scale__name__in={option.scale for option in options}
    )
    numbers: dict[int, dict[str, float]] = defaultdict(dict)
    for task, name, value in rows.values_list("task", "scale__name", "value"):
        numbers[task][name] = value
    return [numbers[task.pk] for task in tasks]


def _no_scales(
    project: int, rows: Sequence[TaskRow], options: Sequence[Any]
) -> list[dict[str, float]]:
    return [{} for _ in rows]


STORED: Mapping[str, Answer] = {
    "also_in": tasks_also_in,
    "filtered": tasks_filtered,
    "guessed": _guessed,
    "scales": _scales,
}
# For the tasks of a file, without data of stored tasks.
READ: Mapping[str, Answer] = {
    "also_in": tasks_also_in,
    "filtered": tasks_filtered,
    "scales": _no_scales,
}


@dataclass(frozen=True)
class RejectedTasks:
    """The tasks that operators rejected.

    `left_out` maps a task's number to (operator, reason).
    """

    passes: Sequence[OperatorResult]
    left_out: Mapping[int, tuple[str, str]]

    @property
    def in_words(self) -> dict[int, str]:
        return {number: f"{operator}: {why}" for number, (operator, why) in self.left_out.items()}

    def record(self, run: Run) -> None:
        count(run.pk, self.passes, {})


def build_task_filter(plan: RunConfig) -> Sieve | None:
    """Return the filter that checks tasks before such a run samples them; None without an operator.

    Raises OperatorFailed.
    """
    if not stands_at(plan.pipeline, TASKS):
        return None
    if any(name == ASK for name, _ in list_operator_questions(plan.pipeline, (TASKS,))):
        _have_filters()
    return _sift


def _have_filters() -> None:
    """Start the filter process before the transaction that samples tasks.

    Nothing in that transaction may wait for a process to start.
    """
    try:
        FILTERS.start()
    except NoAnswer as why:
        raise OperatorFailed(f"data_juicer: {why}") from None


def _sift(run: Run, plan: RunConfig, tasks: Sequence[Task]) -> RejectedTasks:
    return sift_tasks(plan.pipeline, run.project_id, [(task.pk, task) for task in tasks], STORED)


def sift_tasks(
    pipeline: Sequence[OperatorChoice],
    project: int,
    tasks: Sequence[tuple[int, AnyTask]],
    answers: Mapping[str, Answer],
) -> RejectedTasks:
    """Return the tasks that the pipeline's task operators reject, each by its number.

    Raises OperatorFailed.
    """
    outcome = apply(pipeline, TASKS, _samples(pipeline, project, tasks, answers))
    cuts = ((result.operator, cut) for result in outcome.passes for cut in result.cuts)
    return RejectedTasks(
        outcome.passes, {cut.sample.rollout: (operator, cut.reason) for operator, cut in cuts}
    )


def _samples(
    pipeline: Sequence[OperatorChoice],
    project: int,
    tasks: Sequence[tuple[int, AnyTask]],
    answers: Mapping[str, Answer],
) -> list[Sample]:
    options_by_question: dict[str, list[OperatorOptions]] = defaultdict(list)
    for name, options in list_operator_questions(pipeline, (TASKS,)):
        options_by_question[name].append(options)
    results = {
        name: answers[name](project, [task for _, task in tasks], options)
        for name, options in options_by_question.items()
        if tasks
    }
    samples = []
    for at, (number, task) in enumerate(tasks):
        text = said_in(task.prompt, task.follow_ups)
        operator_data = {name: values[at] for name, values in results.items()}
        samples.append(
            Sample(
                number,
                number,
                text,
                0.0,
                domain=task.domain,
                prompt=text,
                meta=task.meta,
                **operator_data,
            )
        )
    return samples


# -- imports


def row_sieve(pipeline: Sequence[OperatorChoice], project: Project) -> WhyNot:
    """Return a function that gives, by line, the reasons for which operators reject rows of a file.

    Raises OperatorFailed.
    """
    return partial(_of_rows, pipeline, project.pk)


def on_tasks(pipeline: Sequence[OperatorChoice]) -> list[OperatorChoice]:
    return [choice.model_copy(update={"stage": TASKS}) for choice in pipeline]


def _of_rows(
    pipeline: Sequence[OperatorChoice], project: int, rows: Sequence[TaskRow]
) -> Mapping[int, str]:
    return sift_tasks(pipeline, project, [(row.line, row) for row in rows], READ).in_words


def unanswered(pipeline: Sequence[OperatorChoice]) -> list[int]:
    """Return the positions of operators that need data which unstored tasks do not have."""
    return [
        place
        for place, choice in enumerate(pipeline)
        if not set(find_operator(choice.operator).asks) <= READ.keys()
    ]
