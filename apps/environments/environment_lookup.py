"""Look up the environment that a run's configuration names."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from apps.accounts.models import Project
from apps.environments import library
from apps.environments.models import Environment
from apps.plugins.contract import validated
from apps.plugins.kinds import ENVIRONMENT
from apps.plugins.registry import REGISTRY
from apps.runs.config import ConfigError, RunConfig
from apps.tasksets.models import Task

# whoever has a key of the run: registered when it is first asked for, as those of the library are
AGENT = "agent"
AGENT_TURNS = 64
AGENT_SILENCE_S = 600.0
AGENT_EPISODE_S = 7200.0


def find_or_register(project: Project, name: str) -> Environment:
    """Return the project's environment of that name, registering a library one at first use.

    Raises LookupError.
    """
    existing = project.environments.filter(name=name).first()
    if existing is not None:
        return existing
    if name == AGENT:
        return _agent(project)
    try:
        about = library.find(name)
    except LookupError as missing:
        if " is refused: " in str(missing):
            raise
        names = sorted(
            {AGENT, *library.names(), *project.environments.values_list("name", flat=True)}
        )
        raise LookupError(
            f"no environment {name!r} in project {project.slug!r}; known: {', '.join(names)}"
        ) from None
    environment, _ = Environment.objects.get_or_create(
        project=project,
        name=name,
        defaults={
            "kind": Environment.Kind.LIBRARY,
            "title": about.title,
            "description": about.__doc__ or "",
            "reward_low": about.reward_low,
            "reward_high": about.reward_high,
            "turn_limit": about.turn_limit,
            "turn_s": about.turn_s,
        },
    )
    return environment


def _agent(project: Project) -> Environment:
    environment, _ = Environment.objects.get_or_create(
        project=project,
        name=AGENT,
        defaults={
            "kind": Environment.Kind.AGENT,
            "title": "An agent",
            "turn_limit": AGENT_TURNS,
            "turn_s": AGENT_SILENCE_S,
            "episode_s": AGENT_EPISODE_S,
            "description": "Programs that take the policy for a model, by OpenAI's interface.",
        },
    )
    return environment


def require_known_environment(plan: RunConfig, project: Project) -> None:
    """Raise ConfigError for an unknown environment, or for tasks with follow-up user messages."""
    if plan.environment is None:
        return
    try:
        environment = find_or_register(project, plan.environment.name)
    except LookupError as missing:
        raise ConfigError({"environment.name": str(missing)}) from None
    if plan.serve and environment.kind != Environment.Kind.AGENT:
        kind = environment.get_kind_display()
        raise ConfigError(
            {
                "environment.name": (
                    f"{environment.name!r} is {kind}, but a run that serves needs `{AGENT}`: its "
                    "callers"
                )
            }
        )
    if problems := dict(_problems_of_options(environment, plan.environment.options)):
        raise ConfigError(problems)
    scripted = Task.objects.filter(
        taskset__project=project, taskset__slug__in=plan.taskset_names
    ).exclude(follow_ups=[])
    if slug := scripted.values_list("taskset__slug", flat=True).first():
        raise ConfigError(
            {
                "environment": (
                    f"the tasks of {slug!r} have follow-ups: use a taskset without follow-ups"
                )
            }
        )


def _problems_of_options(
    environment: Environment, options: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield, by field, what is wrong with the options of a plugin's environment."""
    if environment.kind != Environment.Kind.LIBRARY:
        return
    schema = REGISTRY.find(ENVIRONMENT, environment.name).options
    if schema is None:
        return
    try:
        validated(schema, options)
    except ValidationError as bad:
        for error in bad.errors():
            yield ".".join(["environment.options", *map(str, error["loc"])]), error["msg"]
