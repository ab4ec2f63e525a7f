"""A task that names its scorers is judged by these only, whatever their domains; a run without
them is refused.
"""

import pytest

from apps.pipelines.refining import refine
from apps.rewards.combining import Judgement, combined, full_reward
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import (
    AnsweredQuestion,
    open_questions,
    record_verdicts,
    require_known_scorers,
)
from apps.rollouts.models import Group
from apps.rollouts.task_stats import TaskRecord
from apps.runs.config import ConfigError
from apps.tasksets.judged_by import Kind

THREE = [
    {"scorer": "sort"},
    {"scorer": "arithmetic", "weight": 2, "domains": ["sums"]},
    {"scorer": "length", "weight": 0.5},
]


@pytest.fixture
def say(taskset):
    """Return a function that sets the scorers that a task names."""

    def write(index: int, judged_by: object, domain: str = "") -> None:
        taskset.tasks.filter(index=index).update(meta={"judged_by": judged_by}, domain=domain)

    return write


def refusal(plan, project, rewards: list, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        require_known_scorers(plan(rewards=rewards, **changes), project)
    return refused.value.problems


def test_task_with_named_scorers_gets_their_rewards_only(plan):
    mine = plan(rewards=THREE)
    own = Kind("digits", ("arithmetic",))
    said = [Judgement("sort", 1.0), Judgement("arithmetic", 0.25), Judgement("length", None)]
    assert (combined(said, mine, own), full_reward(mine, own)) == (0.5, 2.0)
    assert combined(said[:1], mine, own) is None  # the named scorer has given no verdict
    assert (
        combined(said, mine, Kind("digits")) is None and full_reward(mine, Kind("digits")) == 1.25
    )


@pytest.mark.django_db
def test_other_scorers_are_not_asked_about_a_task_that_names_its_own(new_run, finish, say):
    say(0, ["arithmetic"])
    say(1, ["sort", "arithmetic"], domain="sums")
    say(2, None, domain="sums")
    finish(new_run(rewards=THREE, max_staleness=9), groups=4)
    asked = open_questions(Group.objects.claim(Group.State.SCORING, "s", 60, 100))
    by_task: dict[int, set[str]] = {}
    for group in Group.objects.select_related("task"):
        by_task[group.task.index] = {
            question.scorer for question in asked if question.group_id == group.pk
        }
    assert by_task == {
        0: {"arithmetic"},
        1: {"sort", "arithmetic"},
        2: {"sort", "arithmetic", "length"},
        3: {"sort", "length"},
    }


@pytest.mark.django_db
def test_groups_with_named_scorers_are_trained_and_success_uses_their_full_reward(
    new_run, finish, say
):
    for index in range(4):
        say(index, ["arithmetic"])
    run = new_run(rewards=THREE, max_staleness=9)
    finish(run, ["1", "2"])
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
    values = {"1": 1.0, "2": 0.0}
    record_verdicts(
        claimed,
        [
            AnsweredQuestion(q, [Verdict(values[q.rollouts[0].text], "test")])
            for q in open_questions(claimed)
        ],
    )
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
    (group,) = Group.objects.all()
    assert group.state == Group.State.ADMITTED
    assert sorted(group.experiences.values_list("reward", flat=True)) == [0.0, 2.0]
    record = TaskRecord.objects.get(run=run)
    assert (record.attempts, record.successes) == (2, 1.0)


@pytest.mark.django_db
def test_task_that_names_a_scorer_missing_from_the_run_is_refused(plan, project, say):
    say(1, ["sort"])
    say(2, ["math", "sort"])
    assert refusal(plan, project, THREE) == {
        "rewards": (
            "task 2 of 'sort' names the scorer 'math' (meta.judged_by), but the run has sort,"
            " arithmetic, length: add it"
        )
    }


@pytest.mark.django_db
def test_judged_by_that_is_not_a_list_of_names_is_refused_with_the_task(plan, project, say):
    say(3, "sort")
    assert refusal(plan, project, THREE)["rewards"].startswith(
        "task 3 of 'sort': meta.judged_by: must be a list"
    )


@pytest.mark.django_db
def test_task_cannot_name_scorers_if_the_algorithm_needs_every_scorer(plan, project, say):
    rewards = [{"scorer": "sort"}, {"scorer": "length"}]
    say(0, ["sort"])
    assert "names its own" in refusal(plan, project, rewards, algorithm={"name": "gdpo"})["rewards"]


@pytest.mark.django_db
def test_domain_without_a_scorer_is_accepted_if_all_its_tasks_name_their_own(plan, project, say):
    judged = plan(rewards=THREE[1:2])
    for index in range(4):
        say(index, ["arithmetic"], domain="digits")
    require_known_scorers(judged, project)
    say(3, None, domain="digits")
    assert refusal(plan, project, THREE[1:2]) == {
        "rewards": "no scorer covers tasks of domain digits"
    }


@pytest.mark.django_db
def test_task_options_are_checked_for_scorers_that_the_task_names(plan, project, taskset):
    own = {"judged_by": ["math"], "scorers": {"math": {"loud": 1}}}
    taskset.tasks.filter(index=1).update(meta=own, domain="geometry")
    problems = refusal(
        plan, project, [{"scorer": "sort"}, {"scorer": "math", "domains": ["algebra"]}]
    )
    assert "task 1 of 'sort' has its own options" in problems["rewards.1.options"]
