"""Which environment a run's configuration means."""

from apps.accounts.models import Project
from apps.environments import library
from apps.environments.models import Environment
from apps.runs.config import ConfigError, RunConfig
from apps.tasksets.models import Task

AGENT = "agent"  # whoever has a key of the run: registered when it is first asked for, as those of the library are
AGENT_TURNS, AGENT_SILENCE_S, AGENT_EPISODE_S = 64, 600.0, 7200.0


def find(project: Project, name: str) -> Environment:
    """The project's environment of that name; one of the library is registered when it is first asked for. Raises LookupError."""
    known = project.environments.filter(name=name).first()
    if known is not None:
        return known
    if name == AGENT:
        return _agent(project)
    if name not in library.ENVIRONMENTS:
        names = sorted({AGENT, *library.ENVIRONMENTS, *project.environments.values_list("name", flat=True)})
        raise LookupError(f"no environment {name!r} in project {project.slug!r}; known: {', '.join(names)}")
    about = library.ENVIRONMENTS[name]
    made, _ = Environment.objects.get_or_create(
        project=project, name=name,
        defaults={
            "kind": Environment.Kind.LIBRARY, "title": about.title, "description": about.__doc__ or "",
            "reward_low": about.reward_low, "reward_high": about.reward_high,
            "turn_limit": about.turn_limit, "turn_s": about.turn_s,
        },
    )  # fmt: skip
    return made


def _agent(project: Project) -> Environment:
    made, _ = Environment.objects.get_or_create(
        project=project, name=AGENT,
        defaults={
            "kind": Environment.Kind.AGENT, "title": "An agent", "turn_limit": AGENT_TURNS, "turn_s": AGENT_SILENCE_S,
            "episode_s": AGENT_EPISODE_S, "description": "Programs that take the policy for a model, by OpenAI's interface.",
        },
    )  # fmt: skip
    return made


def require_known_environment(plan: RunConfig, project: Project) -> None:
    """Raises ConfigError when the plan names an environment that is not there, or tasks whose user has more to say by himself."""
    if plan.environment is None:
        return
    try:
        environment = find(project, plan.environment.name)
    except LookupError as missing:
        raise ConfigError({"environment.name": str(missing)}) from None
    if plan.serve and environment.kind != Environment.Kind.AGENT:
        kind = environment.get_kind_display()
        raise ConfigError(
            {"environment.name": f"{environment.name!r} is {kind}, and a run that serves needs `{AGENT}`: its callers"}
        )
    scripted = Task.objects.filter(taskset__project=project, taskset__slug__in=plan.taskset_names).exclude(follow_ups=[])
    if slug := scripted.values_list("taskset__slug", flat=True).first():
        raise ConfigError({"environment": f"the tasks of {slug!r} have follow-ups: take a taskset without, or none"})
