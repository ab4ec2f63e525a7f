"""Operators over tasks: before a run draws them, and before an import stores them. Pure but for what operators ask."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from apps.accounts.models import Project
from apps.pipelines.applying import OperatorFailed, Pass, apply, stands_at
from apps.pipelines.asking import guesses_at, questions
from apps.pipelines.data_juicer.asking import ASK, tasks_filtered
from apps.pipelines.data_juicer.process import FILTERS, NoAnswer
from apps.pipelines.evaluation_sets import tasks_also_in
from apps.pipelines.models import count
from apps.pipelines.operators import find
from apps.pipelines.operators.contract import TASKS, OperatorOptions, Sample
from apps.rollouts.sifting import Sieve
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import Task, TaskDifficulty
from apps.tasksets.overlapping import said_in
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import WhyNot

Asked = Task | TaskRow
# Field of a Sample → what it is for each of these tasks of a project, given the options of all who ask for it.
Answer = Callable[[int, Sequence[Any], Sequence[Any]], list[Any]]


def _guessed(project: int, tasks: Sequence[Task], options: Sequence[OperatorOptions]) -> list[tuple[int, int] | None]:
    return guesses_at([task.pk for task in tasks])


def _scales(project: int, tasks: Sequence[Task], options: Sequence[Any]) -> list[dict[str, float]]:
    """Numbers that were estimated, by the names of the scales that operators go by."""
    rows = TaskDifficulty.objects.filter(task__in=[task.pk for task in tasks], scale__name__in={one.by for one in options})
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for task, name, value in rows.values_list("task", "scale__name", "value"):
        found[task][name] = value
    return [found[task.pk] for task in tasks]


def _no_scales(project: int, rows: Sequence[TaskRow], options: Sequence[Any]) -> list[dict[str, float]]:
    return [{} for _ in rows]


STORED: Mapping[str, Answer] = {"also_in": tasks_also_in, "filtered": tasks_filtered, "guessed": _guessed, "scales": _scales}
# Of a file: what is known of stored tasks is not.
READ: Mapping[str, Answer] = {"also_in": tasks_also_in, "filtered": tasks_filtered, "scales": _no_scales}


@dataclass(frozen=True)
class Sifting:
    """What operators left out of some tasks. `left_out`: by a task's number, which operator did, and why."""

    passes: Sequence[Pass]
    left_out: Mapping[int, tuple[str, str]]

    @property
    def in_words(self) -> dict[int, str]:
        return {number: f"{operator}: {why}" for number, (operator, why) in self.left_out.items()}

    def record(self, run: Run) -> None:
        count(run.pk, self.passes, {})


def sieve_of(plan: RunConfig) -> Sieve | None:
    """What looks at the tasks of such a run before it draws them; None where no operator stands there. Raises OperatorFailed."""
    if not stands_at(plan.pipeline, TASKS):
        return None
    if any(name == ASK for name, _ in questions(plan.pipeline, (TASKS,))):
        _have_filters()
    return _look


def _have_filters() -> None:
    """They are up before the transaction begins in which tasks are drawn: nothing waits in there for a process to start."""
    try:
        FILTERS.start()
    except NoAnswer as why:
        raise OperatorFailed(f"data_juicer: {why}") from None


def _look(run: Run, plan: RunConfig, tasks: Sequence[Task]) -> Sifting:
    return sift_tasks(plan.pipeline, run.project_id, [(task.pk, task) for task in tasks], STORED)


def sift_tasks(
    pipeline: Sequence[OperatorChoice], project: int, tasks: Sequence[tuple[int, Asked]], answers: Mapping[str, Answer]
) -> Sifting:
    """What the pipeline's operators on tasks leave out of these, each with its number. Raises OperatorFailed."""
    outcome = apply(pipeline, TASKS, _samples(pipeline, project, tasks, answers))
    cuts = ((one.operator, cut) for one in outcome.passes for cut in one.cuts)
    return Sifting(outcome.passes, {cut.sample.rollout: (operator, cut.reason) for operator, cut in cuts})


def _samples(
    pipeline: Sequence[OperatorChoice], project: int, tasks: Sequence[tuple[int, Asked]], answers: Mapping[str, Answer]
) -> list[Sample]:
    asked: dict[str, list[OperatorOptions]] = defaultdict(list)
    for name, options in questions(pipeline, (TASKS,)):
        asked[name].append(options)
    told = {name: answers[name](project, [task for _, task in tasks], options) for name, options in asked.items() if tasks}
    found = []
    for at, (number, task) in enumerate(tasks):
        text = said_in(task.prompt, task.follow_ups)
        known = {name: values[at] for name, values in told.items()}
        found.append(Sample(number, number, text, 0.0, domain=task.domain, prompt=text, meta=task.meta, **known))
    return found


# -- imports ----------------------------------------------------------------------------------------------------------------


def row_sieve(pipeline: Sequence[OperatorChoice], project: Project) -> WhyNot:
    """Tells of read rows, by line, which are left out by which operator and why. Raises OperatorFailed."""
    return partial(_of_rows, pipeline, project.pk)


def on_tasks(pipeline: Sequence[OperatorChoice]) -> list[OperatorChoice]:
    return [choice.model_copy(update={"stage": TASKS}) for choice in pipeline]


def _of_rows(pipeline: Sequence[OperatorChoice], project: int, rows: Sequence[TaskRow]) -> Mapping[int, str]:
    return sift_tasks(pipeline, project, [(row.line, row) for row in rows], READ).in_words


def unanswered(pipeline: Sequence[OperatorChoice]) -> list[int]:
    """Places of operators that ask what nobody knows of tasks which are not stored yet."""
    return [place for place, choice in enumerate(pipeline) if not set(find(choice.operator).asks) <= READ.keys()]
