"""Whether a run's pipeline can work: operators and options that are there, and what they name in the project."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from apps.accounts.models import Project
from apps.pipelines import evaluation_sets
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.data_juicer.asking import problems_of as problems_of_filters
from apps.pipelines.operators import find
from apps.pipelines.operators import problems_of as problems_of_operators
from apps.pipelines.operators.contract import TASKS
from apps.pipelines.tasks import STORED, on_tasks, sift_tasks, unanswered
from apps.runs.config import ConfigError, RunConfig, loaded
from apps.runs.pipeline import MAKE_EXPERTS, MOST_OPERATORS, OperatorChoice
from apps.tasksets.models import Task, Taskset

PIPELINE = TypeAdapter(Annotated[list[OperatorChoice], Field(max_length=MOST_OPERATORS)])
OF_ADVANTAGES = ("advantage_above", "advantages")
BY_TOKEN = ("gae", "gigpo", "reinforce_plus_plus")
TRIED_AT_ONCE, MOST_TRIED = 200, 2_000  # tasks of a set that are looked at for one that may be drawn


def problems_of(plan: RunConfig, project: Project) -> dict[str, str]:
    """What is wrong with the plan's pipeline, by dotted field: `pipeline.2.options.above`."""
    found = problems_of_operators(plan.pipeline) or dict(_out_of_place(plan))
    found = found or evaluation_sets.problems_of(plan.pipeline, project, plan.taskset_names) or _in_vain(plan)
    found = found or problems_of_filters(plan.pipeline) or _nothing_left(plan, project)
    return {f"pipeline.{field}": why for field, why in found.items()}


def in_list(text: str) -> list:
    """The operators in a YAML text, unread. Raises ConfigError."""
    said = loaded(text)
    if not isinstance(said, list | None):
        raise ConfigError({"operators": "must be a list: each operator begins with `- operator:`"})
    return said or []


def operators_of_import(said: Sequence[object], project: Project) -> list[OperatorChoice]:
    """Operators that are to look at the tasks of a file, all on tasks. Raises ConfigError by dotted field: `0.operator`."""
    try:
        pipeline = on_tasks(PIPELINE.validate_python(said))
    except ValidationError as error:
        raise ConfigError({".".join(map(str, one["loc"])): one["msg"] for one in error.errors()}) from None
    asks = "asks what is known of stored tasks alone: let it look at them before a run draws them"
    found = problems_of_operators(pipeline) or evaluation_sets.problems_of(pipeline, project)
    found = found or {f"{place}.operator": asks for place in unanswered(pipeline)}
    if found := found or problems_of_filters(pipeline):
        raise ConfigError(found)
    return pipeline


def _in_vain(plan: RunConfig) -> dict[str, str]:
    """Operators whose rows no update would take, or that cannot work with the rest of the plan."""
    found = {}
    none = f"makes expert rows, and `{plan.algorithm.name}` takes none: choose `mix`, or set algorithm.expert.ratio and mu above 0"
    for place, choice in enumerate(plan.pipeline):
        unwanted = choice.operator in MAKE_EXPERTS and not plan.expert_rows_per_step
        if why := none if unwanted else find(choice.operator).why_not(plan):
            found[f"{place}.operator"] = why
    return found


def _out_of_place(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Operators that stand where such a run does nothing."""
    for place, choice in enumerate(plan.pipeline):
        stage = choice.stage or find(choice.operator).stages[0]
        if stage == TASKS and plan.serve:
            yield f"{place}.stage", "is of no use: this run draws no tasks, its callers ask what they like"
        if choice.operator in OF_ADVANTAGES and (why := _why_no_advantage(plan)):
            yield f"{place}.operator", f"goes by one advantage for each answer, and {why}"


def _why_no_advantage(plan: RunConfig) -> str:
    """Why the answers of such a run have not one advantage each that its loss goes by; empty where they do."""
    name = plan.algorithm.advantage.name
    if plan.algorithm.has_teacher:
        return "those of this run are made by its teacher while it is trained"
    if name == "best":
        return f"`{plan.algorithm.name}` imitates the best answers, whatever their advantages"
    return f"with `{name}` tokens of one answer have different ones" if name in BY_TOKEN else ""


def _nothing_left(plan: RunConfig, project: Project) -> dict[str, str]:
    """Operators on tasks that let none through, as far as the first tasks of each set tell."""
    places = [place for place, choice in enumerate(plan.pipeline) if (choice.stage or find(choice.operator).stages[0]) == TASKS]
    if not places or plan.replay:  # what is replayed was drawn already
        return {}
    last = ""
    for tasks in _first_tasks(project, plan.taskset_names):
        try:
            gone = sift_tasks(plan.pipeline, project.pk, [(task.pk, task) for task in tasks], STORED).in_words
        except OperatorFailed as failure:
            return {str(places[0]): f"it breaks at a task: {failure}"}
        if len(gone) < len(tasks):
            return {}
        last = gone[tasks[-1].pk]
    larger = Taskset.objects.filter(project=project, slug__in=plan.taskset_names, size__gt=MOST_TRIED).exists()
    return {str(places[0]): f"leaves no task of {' or '.join(plan.taskset_names)} to draw: {last}"} if last and not larger else {}


def _first_tasks(project: Project, names: Sequence[str]) -> Iterator[list[Task]]:
    for taskset in Taskset.objects.filter(project=project, slug__in=names).order_by("slug"):
        for first in range(0, min(taskset.size, MOST_TRIED), TRIED_AT_ONCE):
            yield list(taskset.tasks.filter(index__gte=first, index__lt=first + TRIED_AT_ONCE).order_by("index"))


def require_known(plan: RunConfig, project: Project) -> None:
    """Raises ConfigError naming the operators that do not exist, options that they do not take, and sets that are not there."""
    if problems := problems_of(plan, project):
        raise ConfigError(problems)
