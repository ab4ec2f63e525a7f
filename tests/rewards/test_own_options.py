"""A task's own scorer options override the run's; a run that cannot use them is refused, and the
error names the task.
"""

import pytest

from apps.rewards.models import Reward
from apps.rewards.own_options import task_options
from apps.rewards.scoring import require_known_scorers
from apps.rollouts.models import Group
from apps.runs.config import ConfigError, ScorerChoice
from workers import scorer, scorer_dispatch

MATH = {"scorer": "math", "options": {"units": False}}
JUDGE = {"address": "http://127.0.0.1:9/v1", "model": "m"}


@pytest.fixture
def say(taskset):
    """Return a function that sets a task's meta and other fields."""

    def write(index: int, meta: dict, **more: object) -> None:
        taskset.tasks.filter(index=index).update(meta=meta, **more)

    return write


def refusal(plan, project, *rewards: dict) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        require_known_scorers(plan(rewards=rewards), project)
    return refused.value.problems


def test_task_options_override_the_runs_options_one_by_one():
    choice = ScorerChoice(**MATH)
    assert task_options(choice, {}) == {"units": False}
    assert task_options(choice, {"scorers": {"math": {"tolerance": 0.1}, "code": {"x": 1}}}) == {
        "units": False,
        "tolerance": 0.1,
    }
    assert task_options(choice, {"scorers": {"math": {"units": True}}}) == {"units": True}
    assert task_options(choice, {"scorers": "of its own"}) == {"units": False}


@pytest.mark.django_db
def test_each_task_is_judged_with_its_own_options_and_the_reward_records_them(new_run, finish, say):
    for index, tolerance in enumerate((0.0, 0.2, 0.0, 0.2)):
        say(
            index,
            {"scorers": {"math": {"tolerance": tolerance}}} if tolerance else {},
            answer={"value": "100", "sorted": ""},
        )
    finish(new_run(rewards=[MATH], max_staleness=9), ["110", "100"], groups=4)
    try:
        while Group.objects.filter(state=Group.State.SCORING).exists():
            assert scorer.serve()
    finally:
        scorer_dispatch.grader().stop()
    rewards = Reward.objects.filter(rollout__text="110").select_related("rollout__group__task")
    assert {
        reward.rollout.group.task.index: (reward.value, reward.options) for reward in rewards
    } == {
        0: (0.0, {"units": False}),
        1: (1.0, {"units": False, "tolerance": 0.2}),
        2: (0.0, {"units": False}),
        3: (1.0, {"units": False, "tolerance": 0.2}),
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    "own, why",
    [
        ({"math": {"tolerance": 7}}, "tolerance: Input should be less than or equal to 1"),
        ({"math": {"loud": 1}}, "loud: Extra inputs are not permitted"),
        ({"math": 0.1}, "must be an object of options, such as {math: {…}}"),
        (["math"], "must be an object of options, such as {math: {…}}"),
    ],
)
def test_invalid_task_options_are_refused_with_the_task(plan, project, say, own, why):
    say(1, {"scorers": {"math": {"tolerance": 0.5}}})
    say(2, {"scorers": own})
    problems = refusal(plan, project, {"scorer": "sort"}, MATH)
    assert list(problems) == ["rewards.1.options"]
    assert (
        "task 2 of 'sort' has its own options, meta.scorers.math: " in problems["rewards.1.options"]
    )
    assert why in problems["rewards.1.options"]


@pytest.mark.django_db
def test_options_for_scorers_or_domains_that_the_run_does_not_have_are_ignored(plan, project, say):
    say(0, {"scorers": {"code": {"loud": 1}}})
    say(1, {"scorers": {"math": {"loud": 1}}}, domain="geometry")
    require_known_scorers(
        plan(rewards=[{"scorer": "sort"}, {**MATH, "domains": ["algebra"]}]), project
    )


@pytest.mark.django_db
def test_task_cannot_choose_the_judge_model(plan, project, say):
    say(3, {"scorers": {"judge": {"address": "http://example.org/v1"}}})
    problems = refusal(plan, project, {"scorer": "judge", "options": JUDGE})
    assert "a task cannot choose the model or its settings" in problems["rewards.0.options"]
