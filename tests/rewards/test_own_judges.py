"""A task that names its scorers is judged by them alone, whatever their domains; a run that has not
got them is refused.
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
    """What a task says of who judges it."""

    def write(index: int, judged_by: object, domain: str = "") -> None:
        taskset.tasks.filter(index=index).update(meta={"judged_by": judged_by}, domain=domain)

    return write


def refusal(plan, project, rewards: list, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        require_known_scorers(plan(rewards=rewards, **changes), project)
    return refused.value.problems


def test_it_gets_what_its_own_scorers_give_and_no_more(plan):
    mine = plan(rewards=THREE)
    own = Kind("digits", ("arithmetic",))
    said = [Judgement("sort", 1.0), Judgement("arithmetic", 0.25), Judgement("length", None)]
    assert (combined(said, mine, own), full_reward(mine, own)) == (0.5, 2.0)
    assert combined(said[:1], mine, own) is None  # the scorer that it names has not spoken
    assert (
        combined(said, mine, Kind("digits")) is None and full_reward(mine, Kind("digits")) == 1.25
    )


@pytest.mark.django_db
def test_others_are_not_asked_about_it(new_run, finish, say):
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
def test_its_groups_are_learned_from_and_its_success_is_a_share_of_its_own_full_reward(
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
def test_a_scorer_that_the_run_has_not_is_refused_with_the_task(plan, project, say):
    say(1, ["sort"])
    say(2, ["math", "sort"])
    assert refusal(plan, project, THREE) == {
        "rewards": (
            "task 2 of 'sort' names the scorer 'math' (meta.judged_by), but the run has sort,"
            " arithmetic, length: add it"
        )
    }


@pytest.mark.django_db
def test_what_is_no_list_of_names_is_refused_with_the_task(plan, project, say):
    say(3, "sort")
    assert refusal(plan, project, THREE)["rewards"].startswith(
        "task 3 of 'sort': meta.judged_by: must be a list"
    )


@pytest.mark.django_db
def test_where_every_scorer_must_speak_none_is_named(plan, project, say):
    rewards = [{"scorer": "sort"}, {"scorer": "length"}]
    say(0, ["sort"])
    assert "names its own" in refusal(plan, project, rewards, algorithm={"name": "gdpo"})["rewards"]


@pytest.mark.django_db
def test_of_a_domain_that_nobody_judges_the_tasks_that_name_their_own_are_judged(
    plan, project, say
):
    judged = plan(rewards=THREE[1:2])
    for index in range(4):
        say(index, ["arithmetic"], domain="digits")
    require_known_scorers(judged, project)
    say(3, None, domain="digits")
    assert refusal(plan, project, THREE[1:2]) == {
        "rewards": "no scorer covers tasks of domain digits"
    }


@pytest.mark.django_db
def test_options_of_its_own_for_a_scorer_that_it_names_are_looked_at(plan, project, taskset):
    own = {"judged_by": ["math"], "scorers": {"math": {"loud": 1}}}
    taskset.tasks.filter(index=1).update(meta=own, domain="geometry")
    problems = refusal(
        plan, project, [{"scorer": "sort"}, {"scorer": "math", "domains": ["algebra"]}]
    )
    assert "task 1 of 'sort' has its own options" in problems["rewards.1.options"]
