"""Which tasksets a plan draws from, found in its project; of a run that serves, what keeps its callers' words."""

from collections.abc import Iterator

from apps.accounts.models import Project, User
from apps.runs.config import ConfigError, RunConfig
from apps.tasksets.growing import grown_from_nothing
from apps.tasksets.models import Taskset


def tasksets_of(project: Project, plan: RunConfig, owner: User | None) -> list[Taskset]:
    """In the order of their slugs. What a run that serves keeps its callers' words in is made where there is none.

    Raises ConfigError naming each one that the project has not, or that cannot be drawn from.
    """
    names = plan.taskset_names
    found = {one.slug: one for one in project.tasksets.filter(slug__in=names)}
    if plan.serve and not found:
        return [_for_callers(project, plan.taskset, owner)]
    if problems := dict(_problems(project, plan, found)):
        raise ConfigError(problems)
    return [found[name] for name in names]


def _for_callers(project: Project, slug: str, owner: User | None) -> Taskset:
    try:
        return grown_from_nothing(project, slug, owner)
    except ValueError as wrong:
        raise ConfigError({"taskset": str(wrong)}) from None


def _problems(project: Project, plan: RunConfig, found: dict[str, Taskset]) -> Iterator[tuple[str, str]]:
    for name in plan.taskset_names:
        field = f"tasksets.{name}" if plan.tasksets else "taskset"
        if name not in found:
            yield field, f"no taskset {name!r} in project {project.slug!r}"
        elif found[name].grows and not plan.serve:
            yield field, f"{name!r} grows by what callers ask, so nobody draws from it: name another"
        elif plan.serve and not found[name].grows:
            yield field, f"{name!r} never changes; name one that is not there yet, to keep what callers ask"
