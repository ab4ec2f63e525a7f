"""Tasksets of a plan, found in its project.

A run that serves stores its callers' prompts in a taskset of its own.
"""

from collections.abc import Iterator

from apps.accounts.models import Project, User
from apps.runs.config import ConfigError, RunConfig
from apps.tasksets.growing import grown_from_nothing
from apps.tasksets.models import Taskset


def load_tasksets(project: Project, plan: RunConfig, owner: User | None) -> list[Taskset]:
    """Return the plan's tasksets in the order of their slugs.

    The taskset in which a run that serves stores its callers' prompts is created if there is none.

    Raises ConfigError naming each one that the project has not, or that cannot be sampled.
    """
    names = plan.taskset_names
    tasksets_by_slug = {
        taskset.slug: taskset for taskset in project.tasksets.filter(slug__in=names)
    }
    if plan.serve and not tasksets_by_slug:
        return [_for_callers(project, names[0], owner)]
    if problems := dict(_problems(project, plan, tasksets_by_slug)):
        raise ConfigError(problems)
    return [tasksets_by_slug[name] for name in names]


def _for_callers(project: Project, slug: str, owner: User | None) -> Taskset:
    try:
        return grown_from_nothing(project, slug, owner)
    except ValueError as wrong:
        raise ConfigError({"taskset": str(wrong)}) from None


def _problems(
    project: Project, plan: RunConfig, tasksets_by_slug: dict[str, Taskset]
) -> Iterator[tuple[str, str]]:
    for name in plan.taskset_names:
        field = f"tasksets.{name}" if plan.tasksets else "taskset"
        if name not in tasksets_by_slug:
            yield field, f"no taskset {name!r} in project {project.slug!r}"
        elif tasksets_by_slug[name].grows and not plan.serve:
            yield (
                field,
                (
                    f"{name!r} grows with the prompts of callers, so runs cannot sample from it: "
                    "use another"
                ),
            )
        elif plan.serve and not tasksets_by_slug[name].grows:
            yield (
                field,
                (
                    f"{name!r} cannot change; use a new name for the taskset that stores callers' "
                    "prompts"
                ),
            )
