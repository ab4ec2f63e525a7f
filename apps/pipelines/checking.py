"""Validation of a run's pipeline: its operators, their options, and the sets that they name."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from apps.accounts.models import Project
from apps.pipelines import evaluation_sets
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.data_juicer.asking import find_data_juicer_problems as problems_of_filters
from apps.pipelines.operators import find_operator
from apps.pipelines.operators import find_operator_problems as problems_of_operators
from apps.pipelines.operators.contract import TASKS
from apps.pipelines.tasks import STORED, on_tasks, sift_tasks, unanswered
from apps.runs.config import ConfigError, RunConfig
from apps.runs.parsing import load_yaml
from apps.runs.pipeline import MAKE_EXPERTS, MAX_OPERATORS, OperatorChoice
from apps.tasksets.models import Task, Taskset

PIPELINE = TypeAdapter(Annotated[list[OperatorChoice], Field(max_length=MAX_OPERATORS)])
OF_ADVANTAGES = ("advantage_above", "advantages")
BY_TOKEN = ("gae", "gigpo", "reinforce_plus_plus")
TRIED_AT_ONCE = 200
MAX_TRIED = 2_000  # tasks of a set that are checked for an accepted one


def find_pipeline_problems(plan: RunConfig, project: Project) -> dict[str, str]:
    """Return the problems of the plan's pipeline by dotted field: `pipeline.2.options.above`."""
    problems = problems_of_operators(plan.pipeline) or dict(_find_misplaced_operators(plan))
    problems = (
        problems
        or evaluation_sets.find_evaluation_set_problems(plan.pipeline, project, plan.taskset_names)
        or _find_useless_operators(plan)
    )
    problems = (
        problems or problems_of_filters(plan.pipeline) or _find_rejecting_operators(plan, project)
    )
    return {f"pipeline.{field}": why for field, why in problems.items()}


def in_list(text: str) -> list:
    """Return the list of operators in a YAML text, not validated. Raises ConfigError."""
    data = load_yaml(text)
    if not isinstance(data, list | None):
        raise ConfigError({"operators": "must be a list: each operator begins with `- operator:`"})
    return data or []


def operators_of_import(data: Sequence[object], project: Project) -> list[OperatorChoice]:
    """Return operators for the tasks of an imported file, all of the task stage.

    Raises ConfigError by dotted field: `0.operator`.
    """
    try:
        pipeline = on_tasks(PIPELINE.validate_python(data))
    except ValidationError as error:
        raise ConfigError(
            {".".join(map(str, problem["loc"])): problem["msg"] for problem in error.errors()}
        ) from None
    asks = "needs stored tasks: apply it before a run samples them"
    problems = problems_of_operators(pipeline) or evaluation_sets.find_evaluation_set_problems(
        pipeline, project
    )
    problems = problems or {f"{place}.operator": asks for place in unanswered(pipeline)}
    if problems := problems or problems_of_filters(pipeline):
        raise ConfigError(problems)
    return pipeline


def _find_useless_operators(plan: RunConfig) -> dict[str, str]:
    """Return operators whose rows no step would take, or that conflict with the plan."""
    problems = {}
    none = (
        f"makes expert rows, but `{plan.algorithm.name}` uses none: choose `mix`, or set "
        "algorithm.expert.ratio and mu above 0"
    )
    for place, choice in enumerate(plan.pipeline):
        unwanted = choice.operator in MAKE_EXPERTS and not plan.expert_rows_per_step
        if why := none if unwanted else find_operator(choice.operator).refusal(plan):
            problems[f"{place}.operator"] = why
    return problems


def _find_misplaced_operators(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield operators at stages that such a run does not have."""
    for place, choice in enumerate(plan.pipeline):
        stage = choice.stage or find_operator(choice.operator).stages[0]
        if stage == TASKS and plan.serve:
            yield (
                f"{place}.stage",
                "has no effect: this run samples no tasks, because callers send the prompts",
            )
        if choice.operator in OF_ADVANTAGES and (why := _why_no_advantage(plan)):
            yield f"{place}.operator", f"needs one advantage per reply, but {why}"


def _why_no_advantage(plan: RunConfig) -> str:
    """Return why answers of this run lack one advantage each that its loss uses.

    Empty if they have.
    """
    name = plan.algorithm.advantage.name
    if plan.algorithm.has_teacher:
        return "the teacher computes advantages only during training"
    if name == "best":
        return f"`{plan.algorithm.name}` imitates the best replies, whatever their advantages"
    return (
        f"with `{name}` the tokens of a reply have different advantages" if name in BY_TOKEN else ""
    )


def _find_rejecting_operators(plan: RunConfig, project: Project) -> dict[str, str]:
    """Return task operators that reject all of the first tasks of each set."""
    places = [
        place
        for place, choice in enumerate(plan.pipeline)
        if (choice.stage or find_operator(choice.operator).stages[0]) == TASKS
    ]
    if not places or plan.replay:  # a replay's tasks were sampled already
        return {}
    last = ""
    for tasks in _first_tasks(project, plan.taskset_names):
        try:
            reasons = sift_tasks(
                plan.pipeline, project.pk, [(task.pk, task) for task in tasks], STORED
            ).in_words
        except OperatorFailed as failure:
            return {str(places[0]): f"it fails on a task: {failure}"}
        if len(reasons) < len(tasks):
            return {}
        last = reasons[tasks[-1].pk]
    larger = Taskset.objects.filter(
        project=project, slug__in=plan.taskset_names, size__gt=MAX_TRIED
    ).exists()
    return (
        {str(places[0]): f"leaves no task of {' or '.join(plan.taskset_names)} to sample: {last}"}
        if last and not larger
        else {}
    )


def _first_tasks(project: Project, names: Sequence[str]) -> Iterator[list[Task]]:
    for taskset in Taskset.objects.filter(project=project, slug__in=names).order_by("slug"):
        for first in range(0, min(taskset.size, MAX_TRIED), TRIED_AT_ONCE):
            yield list(
                taskset.tasks.filter(index__gte=first, index__lt=first + TRIED_AT_ONCE).order_by(
                    "index"
                )
            )


def require_known(plan: RunConfig, project: Project) -> None:
    """Raise ConfigError for unknown operators, unknown options and missing sets."""
    if problems := find_pipeline_problems(plan, project):
        raise ConfigError(problems)
