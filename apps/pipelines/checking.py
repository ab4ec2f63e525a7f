"""Whether a run's pipeline can work: operators and options that are there, and what they name in the project."""

from apps.accounts.models import Project
from apps.pipelines import evaluation_sets
from apps.pipelines.operators import find
from apps.pipelines.operators import problems_of as problems_of_operators
from apps.runs.config import ConfigError, RunConfig
from apps.runs.pipeline import MAKE_EXPERTS


def problems_of(plan: RunConfig, project: Project) -> dict[str, str]:
    """What is wrong with the plan's pipeline, by dotted field: `pipeline.2.options.above`."""
    found = problems_of_operators(plan.pipeline) or evaluation_sets.problems_of(plan, project) or _in_vain(plan)
    return {f"pipeline.{field}": why for field, why in found.items()}


def _in_vain(plan: RunConfig) -> dict[str, str]:
    """Operators whose rows no update would take, or that cannot work with the rest of the plan."""
    found = {}
    none = f"makes expert rows, and `{plan.algorithm.name}` takes none: choose `mix`, or set algorithm.expert.ratio and mu above 0"
    for place, choice in enumerate(plan.pipeline):
        unwanted = choice.operator in MAKE_EXPERTS and not plan.expert_rows_per_step
        if why := none if unwanted else find(choice.operator).why_not(plan):
            found[f"{place}.operator"] = why
    return found


def require_known(plan: RunConfig, project: Project) -> None:
    """Raises ConfigError naming the operators that do not exist, options that they do not take, and sets that are not there."""
    if problems := problems_of(plan, project):
        raise ConfigError(problems)
