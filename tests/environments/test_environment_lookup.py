"""A run names its environment; invalid combinations are rejected with the reason."""

import pytest

from apps.environments.environment_lookup import find_or_register, require_known_environment
from apps.environments.models import Environment
from apps.runs.config import ConfigError


def problems(make, *words, **named) -> dict[str, str]:
    with pytest.raises(ConfigError) as error:
        make(*words, **named)
    return error.value.problems


def test_library_environment_is_registered_on_first_use(project):
    assert (
        find_or_register(project, "guess_number").pk == find_or_register(project, "guess_number").pk
    )
    known = Environment.objects.get()
    assert (known.kind, known.turn_limit, known.reward_high) == ("library", 5, 1.0)


def test_unknown_environment_is_rejected_with_the_available_ones(project, plan, pushed):
    require_known_environment(plan(environment={"name": "outside"}), project)
    wrong = problems(require_known_environment, plan(environment={"name": "inside"}), project)
    assert "outside" in wrong["environment.name"] and "guess_number" in wrong["environment.name"]


def test_tasks_with_follow_ups_are_rejected(project, plan, taskset):
    taskset.tasks.update(follow_ups=["and then?"])
    assert (
        "follow-ups"
        in problems(require_known_environment, plan(environment={"name": "guess_number"}), project)[
            "environment"
        ]
    )


def test_environment_can_be_the_only_source_of_rewards(plan):
    assert [
        (judge.scorer, judge.weight)
        for judge in plan(environment={"name": "outside"}, rewards=[]).judges
    ] == [("outside", 1.0)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"environment": {"name": "sort"}}, "rewards"),
        ({"environment": {"name": "outside"}, "people": {"per_group": 1}}, "people.per_group"),
        ({"environment": {"name": "outside"}, "length_penalty": {}}, "length_penalty"),
        ({"environment": {"name": "Not a name"}}, "environment.name"),
        ({"environment": {"name": "outside", "max_turns": 0}}, "environment.max_turns"),
        ({"environment": {"name": "outside", "weight": float("nan")}}, "environment.weight"),
        ({"environment": {"name": "outside", "turn": 3}}, "environment.turn"),
    ],
)
def test_settings_incompatible_with_an_environment_are_reported_by_field(plan, changes, field):
    assert field in problems(plan, **changes)
