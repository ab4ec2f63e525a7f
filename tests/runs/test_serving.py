"""A serving run has no groups to compare and draws no tasks; settings that contradict this are
refused by field.
"""

import pytest

from apps.environments.environment_lookup import require_known_environment
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from apps.tasksets.models import Taskset
from tests.serving import SERVED

GOOD = {"policy": "tiny", "steps": 3, **SERVED, "serve": {}}


def problem(**changes) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        parse_config({**GOOD, **changes})
    return refused.value.problems


def test_serving_run_has_defaults_for_its_bound_and_times():
    serve = parse_config(GOOD).serve
    assert (serve.over_bound, serve.idle_s, serve.feedback_s, serve.settle_s) == (
        "refuse",
        120,
        600,
        30,
    )


@pytest.mark.parametrize("name", ["grpo", "rloo", "opmd", "ranking", "gigpo"])
def test_algorithm_that_compares_a_group_is_refused_with_alternatives(name):
    assert "reinforce_plus_plus" in problem(algorithm={"name": name})["algorithm.name"]


@pytest.mark.parametrize("name", ["reinforce_plus_plus", "reinforce", "ppo", "topr", "raft"])
def test_algorithms_named_in_the_refusal_may_serve(name):
    assert parse_config({**GOOD, "algorithm": {"name": name}}).serve


def test_group_size_above_one_is_refused_for_a_serving_run():
    assert "set it to 1" in problem(group_size=4)["group_size"]


def test_serving_run_needs_the_agent_environment_without_reward_time():
    assert "{name: agent}" in problem(environment=None, rewards=[{"scorer": "sort"}])["environment"]
    assert (
        "serve.feedback_s"
        in problem(environment={"name": "agent", "reward_s": 9})["environment.reward_s"]
    )


@pytest.mark.parametrize(
    "serve",
    [
        {"over_bound": "queue"},
        {"idle_s": 0},
        {"idle_s": float("inf")},
        {"feedback_s": -1},
        {"settle_s": float("nan")},
    ],
)
def test_invalid_number_is_refused_with_its_field(serve):
    assert list(problem(serve=serve)) == [f"serve.{next(iter(serve))}"]


def test_serving_run_refuses_other_environments(project, guessing_plan):
    with pytest.raises(ConfigError, match="its callers"):
        require_known_environment(guessing_plan, project)


@pytest.fixture
def guessing_plan():
    return parse_config({**GOOD, "environment": {"name": "guess_number"}})


def test_serving_run_refuses_a_taskset_that_cannot_change(project, policy, taskset):
    with pytest.raises(ConfigError, match="cannot change"):
        Run.create(
            project=project,
            slug="r",
            title="R",
            plan=parse_config({**GOOD, "taskset": taskset.slug}),
        )


def test_runs_cannot_sample_from_a_growing_taskset(new_run, plan, project):
    new_run(**SERVED, serve={})
    with pytest.raises(ConfigError, match="runs cannot sample from it"):
        Run.create(project=project, slug="r", title="R", plan=plan(taskset="asked"))


def test_two_serving_runs_may_share_a_growing_taskset(new_run):
    first = new_run(**SERVED, serve={})
    second = new_run(**SERVED, serve={})
    assert first.taskset_id == second.taskset_id and Taskset.objects.filter(grows=True).count() == 1


def test_taskset_name_that_is_not_a_slug_is_refused(project, policy):
    with pytest.raises(ConfigError, match="not a valid slug"):
        Run.create(
            project=project,
            slug="r",
            title="R",
            plan=parse_config({**GOOD, "taskset": "what they ask"}),
        )


def test_serving_settings_may_change_during_a_run_but_serving_cannot_be_turned_off(new_run, alice):
    run = new_run(**SERVED, serve={})
    run.change_config(alice, serve={"over_bound": "answer_only", "settle_s": None})
    assert (run.settings.serve.over_bound, run.settings.serve.settle_s) == ("answer_only", None)
    with pytest.raises(ConfigError, match="cannot change"):
        run.change_config(alice, serve=None)
