"""In a run that asks about disagreements first, raters first get the reply on which scorers and
people differ most.
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


def test_distance_uses_ratings_then_calibrated_values_then_other_scorers():
    scorers = {"a": 0.9, "b": 0.5}
    assert distance_from_people(scorers, 0.1, {"a": 0.9}) == pytest.approx(0.8)
    assert distance_from_people(scorers, None, {"a": 0.2, "b": 0.4}) == pytest.approx(0.7)
    assert distance_from_people(scorers, None, {}) == pytest.approx(0.4)
    assert distance_from_people({}, 0.5, {}) == distance_from_people({}, None, {}) == 0.0


@pytest.fixture
def disputing(new_run):
    """Return a function that creates a run which asks about disagreements; keywords are further
    fields of its `people`.
    """

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
    """Open one group per tuple for rating; a tuple gives the values of the scorers."""
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
def test_reply_of_a_scorer_that_people_usually_reject_comes_first(disputing, finish, bob):
    """Rate replies as 0 whether the scorer gave 1 or 0."""
    run = disputing()
    both_judge(run, bob, [(1.0, 1), (0.0, 1)] * 12)
    write_calibrations(run)
    trusted, doubted = waiting(run, finish, (0.0,), (1.0,))
    assert [held.group_id for held in claim(bob, run.pk, count=4)] == [doubted.pk] * 2 + [
        trusted.pk
    ] * 2


@pytest.mark.django_db
def test_without_labels_the_reply_on_which_scorers_differ_comes_first(disputing, finish, bob):
    run = disputing(("sort", "format"))
    alike, parted = waiting(run, finish, (1.0, 1.0), (1.0, 0.0))
    assert claim(bob, run.pk)[0].group_id == parted.pk != alike.pk


@pytest.mark.django_db
def test_reply_rated_differently_from_its_scorer_moves_to_the_front(
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
def test_simulated_rating_does_not_count_as_a_persons_rating(disputing, bob, project):
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
def test_other_runs_are_not_reordered(new_run, finish, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600}, max_staleness=50)
    waiting(run, finish, (1.0,), (1.0,))
    before = list(Slot.objects.order_by("pk").values_list("due_at", flat=True))
    assert reorder(run) == 0
    assert list(Slot.objects.order_by("pk").values_list("due_at", flat=True)) == before


@pytest.mark.django_db
def test_wider_gap_makes_the_item_due_earlier(disputing, finish, bob):
    run = disputing()
    both_judge(run, bob, [(1.0, 1)] * 20)
    write_calibrations(run)
    [group] = waiting(run, finish, (1.0,))
    group.refresh_from_db()
    assert {(group.deadline_at - slot.due_at).total_seconds() for slot in group.slots.all()} == {
        600.0
    }


@pytest.mark.django_db
def test_replies_without_rewards_have_no_distance(disputing, bob):
    run = disputing()
    [rollout] = both_judge(run, bob, [(1.0, 1)])
    Reward.objects.all().delete()
    assert distances(run, [rollout]) == {}


@pytest.mark.django_db
def test_ordering_by_disagreement_takes_two_more_queries_for_any_number_of_groups(
    disputing, finish
):
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
