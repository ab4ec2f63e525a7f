"""A run that serves has no groups to compare within, and nothing to draw: what contradicts that is
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


def test_a_run_that_serves_waits_refuses_and_settles_by_default():
    serve = parse_config(GOOD).serve
    assert (serve.over_bound, serve.idle_s, serve.feedback_s, serve.settle_s) == (
        "refuse",
        120,
        600,
        30,
    )


@pytest.mark.parametrize("name", ["grpo", "rloo", "opmd", "ranking", "gigpo"])
def test_an_algorithm_that_compares_a_group_is_refused_with_those_that_do_not(name):
    assert "reinforce_plus_plus" in problem(algorithm={"name": name})["algorithm.name"]


@pytest.mark.parametrize("name", ["reinforce_plus_plus", "reinforce", "ppo", "topr", "raft"])
def test_an_algorithm_that_the_refusal_names_may_serve(name):
    assert parse_config({**GOOD, "algorithm": {"name": name}}).serve


def test_more_than_one_answer_to_a_caller_is_refused():
    assert "set it to 1" in problem(group_size=4)["group_size"]


def test_callers_are_the_environment():
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
def test_a_number_without_meaning_is_refused_by_its_field(serve):
    assert list(problem(serve=serve)) == [f"serve.{next(iter(serve))}"]


def test_another_environment_than_an_agents_cannot_be_served(project, guessing_plan):
    with pytest.raises(ConfigError, match="its callers"):
        require_known_environment(guessing_plan, project)


@pytest.fixture
def guessing_plan():
    return parse_config({**GOOD, "environment": {"name": "guess_number"}})


def test_a_set_that_never_changes_keeps_no_callers_words(project, policy, taskset):
    with pytest.raises(ConfigError, match="cannot change"):
        Run.create(
            project=project,
            slug="r",
            title="R",
            plan=parse_config({**GOOD, "taskset": taskset.slug}),
        )


def test_nobody_draws_from_a_set_that_grows(new_run, plan, project):
    new_run(**SERVED, serve={})
    with pytest.raises(ConfigError, match="runs cannot sample from it"):
        Run.create(project=project, slug="r", title="R", plan=plan(taskset="asked"))


def test_two_runs_may_keep_their_callers_words_together(new_run):
    first = new_run(**SERVED, serve={})
    second = new_run(**SERVED, serve={})
    assert first.taskset_id == second.taskset_id and Taskset.objects.filter(grows=True).count() == 1


def test_a_name_that_is_no_slug_is_refused(project, policy):
    with pytest.raises(ConfigError, match="not a valid slug"):
        Run.create(
            project=project,
            slug="r",
            title="R",
            plan=parse_config({**GOOD, "taskset": "what they ask"}),
        )


def test_what_becomes_of_callers_may_be_changed_while_they_come(new_run, alice):
    run = new_run(**SERVED, serve={})
    run.change_config(alice, serve={"over_bound": "answer_only", "settle_s": None})
    assert (run.settings.serve.over_bound, run.settings.serve.settle_s) == ("answer_only", None)
    with pytest.raises(ConfigError, match="cannot change"):
        run.change_config(alice, serve=None)
