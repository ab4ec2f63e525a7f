"""Which questions a group's scorers are asked, and how their verdicts become one reward."""

import pytest

from apps.pipelines.refining import refine
from apps.rewards.combining import Judgement, combined, full_reward
from apps.rewards.models import Reward
from apps.rewards.scoring import open_questions, record_verdicts, require_known_scorers
from apps.rollouts.models import Group
from apps.runs.config import ConfigError
from apps.tasksets.judged_by import Kind
from apps.tasksets.models import Task
from workers import scorer, scorer_dispatch

MIXED = [
    {"scorer": "sort", "domains": ["digits"]},
    {"scorer": "arithmetic", "domains": ["sums"], "weight": 2},
]
WITH_LENGTH = [{"scorer": "sort"}, {"scorer": "length", "weight": 0.5}]


@pytest.fixture
def mixed(taskset):
    """Give the tasks two domains in turn."""
    for task in Task.objects.filter(taskset=taskset):
        Task.objects.filter(pk=task.pk).update(
            domain=("digits", "sums")[task.index % 2], answer={**task.answer, "value": 7}
        )


@pytest.fixture
def scored(finish):
    """Finish the groups of a run and score them with the scorer worker."""

    def score(run, texts=("12345", "7"), groups=2) -> list[Group]:
        opened = finish(run, list(texts), groups=groups)
        assert scorer.serve()
        return [Group.objects.get(pk=group.pk) for group in opened]

    yield score
    scorer_dispatch.grader().stop()


@pytest.mark.django_db
def test_scorer_with_domains_is_asked_only_about_tasks_of_those_domains(new_run, finish, mixed):
    run = new_run(rewards=MIXED)
    finish(run, groups=4)
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
    asked = {(question.task.domain, question.scorer) for question in open_questions(claimed)}
    assert asked == {("digits", "sort"), ("sums", "arithmetic")}


@pytest.mark.django_db(transaction=True)
def test_rollouts_of_a_mixed_taskset_are_rewarded_by_the_scorers_of_their_domain(
    new_run, scored, mixed
):
    run = new_run(rewards=MIXED)
    for group in scored(run, groups=4):
        domain = group.task.domain
        rewards = Reward.objects.filter(rollout__group=group)
        assert {reward.scorer for reward in rewards} == {
            {"digits": "sort", "sums": "arithmetic"}[domain]
        }
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
    of_sums = Group.objects.filter(run=run, task__domain="sums").first()
    assert sorted(of_sums.experiences.values_list("reward", flat=True)) == [0.0, 2.0]


@pytest.mark.django_db(transaction=True)
def test_only_groups_of_the_configured_domains_wait_for_people(new_run, scored, mixed):
    run = new_run(
        rewards=MIXED[:1], people={"per_group": 2, "domains": ["sums"], "at_deadline": "drop"}
    )
    states = {group.task.domain: group.state for group in scored(run)}
    assert states == {"digits": Group.State.JUDGED, "sums": Group.State.WAITING}
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
    assert Group.objects.get(
        run=run, task__domain="digits"
    ).experiences.exists()  # it needed no rating, so it is not dropped


def test_rater_model_replaces_people_only_in_their_domains(plan):
    asked = {
        "per_group": 2,
        "domains": ["sums"],
        "rater_model": {},
        "at_deadline": "fill_with_rater_model",
    }
    run = plan(rewards=MIXED, people=asked)
    said = [Judgement("sort", 1.0), Judgement("arithmetic", 0.0), Judgement("rater_model", 0.6)]
    assert combined(said, run, Kind("sums")) == 0.6
    assert combined(said, run, Kind("digits")) == 1.0


def test_full_reward_depends_on_the_domain(plan):
    mixed = plan(rewards=[*MIXED, {"scorer": "length", "weight": -1}])
    assert [full_reward(mixed, Kind(domain)) for domain in ("digits", "sums", "other")] == [
        1.5,
        2.5,
        0.5,
    ]
    assert (
        combined([Judgement("sort", 1.0), Judgement("length", 0.5)], mixed, Kind("digits")) == 0.5
    )


@pytest.mark.django_db(transaction=True)
def test_group_scorer_gets_the_verdicts_of_the_other_scorers(new_run, scored):
    (group,) = scored(new_run(rewards=WITH_LENGTH), texts=["12345", "1"], groups=1)
    rewards = Reward.objects.filter(rollout__group=group, scorer="length").order_by(
        "rollout__sample_index"
    )
    said = {reward.rollout.text: (reward.value, reward.reason) for reward in rewards}
    assert said == {
        "12345": (-0.5, "a right answer with 5 tokens, compared with its group"),
        "1": (0.0, "a wrong answer with 1 tokens, compared with its group"),
    }


@pytest.mark.django_db(transaction=True)
def test_reward_stores_its_scorers_version_options_and_duration(new_run, scored):
    options = {"correctness_scorer": "sort", "correct_threshold": 0.5}
    (group,) = scored(
        new_run(rewards=[{"scorer": "sort"}, {"scorer": "length", "options": options}]), groups=1
    )
    reward = Reward.objects.filter(rollout__group=group, scorer="length").first()
    assert (reward.version, reward.options) == (1, options) and reward.seconds > 0


@pytest.mark.django_db
def test_no_verdicts_are_recorded_for_groups_that_another_worker_took_over(new_run, finish):
    finish(new_run(), groups=1)
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
    Group.objects.update(fence=99)
    assert record_verdicts(claimed, []) == [] and not Reward.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rewards", "field", "why"),
    [
        ([{"scorer": "srot"}], "rewards.0.scorer", "no scorer 'srot'"),
        ([{"scorer": "sort", "options": {"loud": 1}}], "rewards.0.options.loud", "Extra inputs"),
        (
            [{"scorer": "length", "options": {"correct_threshold": "high"}}],
            "rewards.0.options.correct_threshold",
            "valid number",
        ),
        ([{"scorer": "sort"}, {"scorer": "sort"}], "rewards", "sort is listed twice"),
        (
            [{"scorer": "sort", "domains": ["digits"]}],
            "rewards",
            "no scorer covers tasks of domain sums",
        ),
    ],
)
def test_invalid_rewards_are_refused_with_their_field(plan, project, mixed, rewards, field, why):
    with pytest.raises(ConfigError) as refusal:
        require_known_scorers(plan(rewards=rewards), project)
    assert list(refusal.value.problems) == [field] and why in refusal.value.problems[field]
