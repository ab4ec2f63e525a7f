"""An environment of the project, and a run whose rollouts are played in it."""

from collections.abc import Callable

import pytest

from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import open_episodes
from apps.environments.models import Environment, Episode
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run


@pytest.fixture
def pushed(project) -> Environment:
    """Create an environment that calls rftweb."""
    return Environment.objects.create(
        project=project, name="outside", kind=Environment.Kind.PUSH, turn_limit=3, parallel=2
    )


@pytest.fixture
def guessing(project) -> Environment:
    """Create an environment of the library."""
    return find_or_register(project, "guess_number")


@pytest.fixture
def opened(new_run) -> Callable[..., list[Episode]]:
    """Return a function that opens a group in this environment and returns its episodes by sample
    index.
    """

    def open_in(environment: Environment, run: Run | None = None) -> list[Episode]:
        run = run or new_run(environment={"name": environment.name}, rewards=[])
        groups = Group.open(run, "explorer@test", 60, 1, run.published_version)
        rollouts = list(Rollout.objects.filter(group__in=groups).order_by("sample_index"))
        episodes = open_episodes(environment, run.settings.environment, groups, rollouts)
        return [episodes[rollout.pk] for rollout in rollouts]

    return open_in
