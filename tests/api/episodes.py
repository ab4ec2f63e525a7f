"""An environment that calls rftweb, and an episode that its program plays."""

from collections.abc import Callable

import pytest

from apps.environments.episode_opening import open_episodes
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, record_actions
from apps.rollouts.models import Group, Rollout

NEW = {"project": "lab", "name": "maze", "reward_low": -1, "reward_high": 2, "turn_limit": 5}


@pytest.fixture
def maze(program, alice):
    """Create a program of alice that may write environments, and its environment."""
    caller = program(alice, "env:write:*")
    assert caller.post("environments/", NEW).status_code == 201
    return caller


@pytest.fixture
def waiting(maze, new_run) -> Callable[..., list[Episode]]:
    """Open the episodes of one group in the maze, as the explorer does."""

    def open_in(**changes: object) -> list[Episode]:
        environment = Environment.objects.get(name="maze")
        run = new_run(environment={"name": "maze"}, rewards=[], **changes)
        groups = Group.open(run, "explorer@test", 60, 1, run.published_version)
        rollouts = list(Rollout.objects.filter(group__in=groups).order_by("sample_index"))
        return list(open_episodes(environment, run.settings.environment, groups, rollouts).values())

    return open_in


@pytest.fixture
def episode(maze, waiting) -> dict:
    """Return an episode that the program plays."""
    waiting()
    answer = maze.post("environments/maze/episodes/", {})
    assert answer.status_code == 201
    return answer.json()


def acted(pk: int, number: int, text: str = "left") -> None:
    record_actions([Action(pk, number, text, 0, 2)])


def turn(caller, pk: int, **said: object):
    return caller.post(f"episodes/{pk}/turns/", {"observation": "go", **said})
