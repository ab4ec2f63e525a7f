"""A rating, its reward and its group's progress are one transaction; a repeated rating is stored
once.
"""

import uuid

import pytest

from apps.accounts.models import User
from apps.feedback.group_completion import close_overdue
from apps.feedback.item_opening import open_items
from apps.feedback.models import Rating
from apps.feedback.ratings.stars import NotRatable, Stars, give, waiting_rollouts
from apps.pipelines.refining import refine
from apps.rewards.models import Reward
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.models import Run


@pytest.fixture
def waiting(new_run, finish):
    """Create a group of two replies that each wait for one person."""
    run = new_run(people={"per_group": 2, "deadline_s": 600, "at_deadline": "drop"})
    finish(run, ["one", "two"])
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 10)
    open_items(
        record_verdicts(
            claimed, [AnsweredQuestion(q, [Verdict(0.0, "test")]) for q in open_questions(claimed)]
        )
    )
    return Group.objects.get()


def stars(rollout, n, client_uuid=None) -> Stars:
    return Stars(rollout.pk, n, client_uuid or uuid.uuid4())


def test_stars_become_a_reward_between_0_and_1(waiting, bob):
    give(bob, stars(waiting.rollouts.first(), 4))
    assert Reward.objects.get(source="human").value == 0.75


def test_group_is_closed_when_it_has_enough_ratings(waiting, bob):
    for rollout in waiting.rollouts.all():
        give(bob, stars(rollout, 3))
    waiting.refresh_from_db()
    assert waiting.state == Group.State.JUDGED


def test_repeated_client_uuid_counts_once(waiting, bob):
    rollout = waiting.rollouts.first()
    key = uuid.uuid4()
    assert give(bob, stars(rollout, 4, key)) == give(bob, stars(rollout, 4, key))
    assert Rating.objects.count() == 1


def test_changed_rating_is_a_new_row_and_the_newest_counts(waiting, bob):
    rollout = waiting.rollouts.first()
    give(bob, stars(rollout, 1))
    give(bob, stars(rollout, 5))
    assert Rating.objects.count() == 2
    assert Reward.objects.get(source="human", is_current=True).value == 1.0


def test_ratings_replace_the_scorers_rewards(waiting, bob):
    for rollout, n in zip(waiting.rollouts.order_by("sample_index"), (5, 2), strict=True):
        give(bob, stars(rollout, n))
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    assert sorted(waiting.experiences.values_list("reward", flat=True)) == [0.25, 1.0]


def test_rating_after_the_group_is_closed_is_stored_as_late(waiting, bob):
    for rollout in waiting.rollouts.all():
        give(bob, stars(rollout, 3))
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    rating = give(bob, stars(waiting.rollouts.first(), 1))
    assert rating.is_late and set(waiting.experiences.values_list("reward", flat=True)) == {0.5}


def test_group_without_ratings_at_its_deadline_follows_the_configured_rule(waiting):
    Group.objects.update(deadline_at="2020-01-01T00:00Z")
    assert close_overdue() == 1
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason) == (
        Group.State.DROPPED,
        "nobody rated it before the deadline",
    )
    assert Run.objects.get().groups_dropped == 1


def test_a_stranger_may_not_rate(waiting, carol):
    with pytest.raises(NotRatable):
        give(carol, stars(waiting.rollouts.first(), 3))


def test_queue_contains_only_replies_that_the_person_has_not_rated(waiting, bob):
    first, second = waiting.rollouts.order_by("pk")
    give(bob, stars(first, 3))
    assert list(waiting_rollouts(bob)) == [second]


def test_a_stranger_has_an_empty_queue(waiting, carol: User):
    assert list(waiting_rollouts(carol)) == []


def test_only_configured_raters_may_give_stars(new_run, finish, alice, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600, "raters": {"people": ["alice"]}})
    (group,) = finish(run, ["one", "two"])
    with pytest.raises(NotRatable):
        give(bob, stars(group.rollouts.first(), 4))
    assert give(alice, stars(group.rollouts.first(), 4)).stars == 4


def test_earlier_stars_reduce_the_number_of_raters_an_item_needs(new_run, finish, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600, "overlap": 3})
    (group,) = finish(run, ["one", "two"])
    give(bob, stars(group.rollouts.order_by("pk").first(), 4))
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 10)
    open_items(
        record_verdicts(
            claimed, [AnsweredQuestion(q, [Verdict(0.0, "test")]) for q in open_questions(claimed)]
        )
    )
    assert sorted(group.items.values_list("overlap", flat=True)) == [2, 3]
