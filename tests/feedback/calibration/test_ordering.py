"""Where a run asks about disagreements, the reply on which scorers and people part comes first to
whoever asks for one.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.feedback.calibration.making import write_calibrations
from apps.feedback.calibration.ordering import distances, reorder
from apps.feedback.claiming import claim
from apps.feedback.expected_benefit import distance_from_people
from apps.feedback.item_opening import open_items
from apps.feedback.models import Slot
from apps.rewards.models import Reward
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group
from tests.feedback.calibration.judging import both_judge
from tests.feedback.quality.deciding import rater


def test_from_peoples_word_if_there_is_one_then_from_what_they_usually_give_then_from_each_other():
    scorers = {"a": 0.9, "b": 0.5}
    assert distance_from_people(scorers, 0.1, {"a": 0.9}) == pytest.approx(0.8)
    assert distance_from_people(scorers, None, {"a": 0.2, "b": 0.4}) == pytest.approx(0.7)
    assert distance_from_people(scorers, None, {}) == pytest.approx(0.4)
    assert distance_from_people({}, 0.5, {}) == distance_from_people({}, None, {}) == 0.0


@pytest.fixture
def disputing(new_run):
    """A run that asks about disagreements; keywords are further fields of its `people`."""

    def make_run(scorers=("sort",), **people):
        asked = {
            "per_group": 2,
            "deadline_s": 600,
            "ask_first": "disagreement",
            "open_claims": 50,
            **people,
        }
        return new_run(
            max_staleness=50, rewards=[{"scorer": scorer} for scorer in scorers], people=asked
        )

    return make_run


def waiting(run, finish, *given):
    """Groups put before people, one for each tuple: what each scorer gives its replies."""
    finish(run, ["one", "two"], groups=len(given))
    groups = Group.objects.claim(Group.State.SCORING, "scorer", 60, 100, run)
    place = {group.pk: n for n, group in enumerate(sorted(groups, key=lambda group: group.pk))}
    names = [choice.scorer for choice in run.settings.rewards]
    answers = [
        AnsweredQuestion(q, [Verdict(given[place[q.group_id]][names.index(q.scorer)], "test")])
        for q in open_questions(groups)
    ]
    open_items(record_verdicts(groups, answers))
    return sorted(groups, key=lambda group: group.pk)


@pytest.mark.django_db
def test_a_scorer_whose_answer_people_usually_reject_is_asked_about_first(disputing, finish, bob):
    """People found what it gives 1 to be worth 0; what it gives 0, too."""
    run = disputing()
    both_judge(run, bob, [(1.0, 1), (0.0, 1)] * 12)
    write_calibrations(run)
    trusted, doubted = waiting(run, finish, (0.0,), (1.0,))
    assert [held.group_id for held in claim(bob, run.pk, count=4)] == [doubted.pk] * 2 + [
        trusted.pk
    ] * 2


@pytest.mark.django_db
def test_before_there_are_labels_the_reply_on_which_scorers_part_comes_first(
    disputing, finish, bob
):
    run = disputing(("sort", "format"))
    alike, parted = waiting(run, finish, (1.0, 1.0), (1.0, 0.0))
    assert claim(bob, run.pk)[0].group_id == parted.pk != alike.pk


@pytest.mark.django_db
def test_a_reply_that_somebody_judged_otherwise_than_the_scorer_moves_to_the_front(
    disputing, finish, bob, project
):
    run = disputing(overlap=2)
    first, second = waiting(run, finish, (1.0,), (1.0,))
    held = claim(bob, run.pk)[0]
    assert held.group_id == first.pk
    disputed = second.rollouts.order_by("pk").last().pk
    rejected = Reward(
        rollout_id=disputed, source="human", scorer="stars", value=0.0, by=rater(project, "ann")
    )
    Reward.record_words(rejected.by, "stars", [rejected])
    assert reorder(run) > 0
    assert claim(rater(project, "cem"), run.pk)[0].shown == [disputed]


@pytest.mark.django_db
def test_a_simulated_rating_is_not_peoples_word(disputing, bob, project):
    """The scorer gave 1; bob agrees, the simulated rater doesn't."""
    run = disputing()
    rollouts = both_judge(run, bob, [(1.0, 5)] * 2)
    robot = User.objects.create(username="robot", is_simulated=True)
    for rollout in rollouts:
        given = Reward(rollout_id=rollout, source="human", scorer="stars", value=0.0, by=robot)
        Reward.record_words(robot, "stars", [given])
    given = Reward(rollout_id=rollouts[0], source="human", scorer="stars", value=1.0, by=bob)
    Reward.record_words(bob, "stars", [given])
    assert distances(run, rollouts) == dict.fromkeys(rollouts, 0.0)


@pytest.mark.django_db
def test_otherwise_it_is_the_run_that_says_what_comes_first(new_run, finish, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600}, max_staleness=50)
    waiting(run, finish, (1.0,), (1.0,))
    before = list(Slot.objects.order_by("pk").values_list("due_at", flat=True))
    assert reorder(run) == 0
    assert list(Slot.objects.order_by("pk").values_list("due_at", flat=True)) == before


@pytest.mark.django_db
def test_it_is_due_the_sooner_the_wider_the_gap(disputing, finish, bob):
    run = disputing()
    both_judge(run, bob, [(1.0, 1)] * 20)
    write_calibrations(run)
    [group] = waiting(run, finish, (1.0,))
    group.refresh_from_db()
    assert {(group.deadline_at - slot.due_at).total_seconds() for slot in group.slots.all()} == {
        600.0
    }


@pytest.mark.django_db
def test_what_nobody_has_judged_is_no_distance(disputing, bob):
    run = disputing()
    [rollout] = both_judge(run, bob, [(1.0, 1)])
    Reward.objects.all().delete()
    assert distances(run, [rollout]) == {}


@pytest.mark.django_db
def test_to_ask_so_costs_the_same_few_statements_however_many_replies_wait(disputing, finish):
    def statements(groups, ask_first):
        run = disputing(ask_first=ask_first)
        finish(run, ["one", "two"], groups=groups)
        claimed = Group.objects.claim(Group.State.SCORING, "scorer", 60, 100, run)
        done = record_verdicts(
            claimed, [AnsweredQuestion(q, [Verdict(1.0, "test")]) for q in open_questions(claimed)]
        )
        with CaptureQueriesContext(connection) as captured:
            open_items(done)
        return len(captured)

    assert [
        statements(groups, "disagreement") - statements(groups, "worth") for groups in (2, 12)
    ] == [2, 2]
