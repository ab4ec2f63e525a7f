"""Many ratings in one call have the same result as one by one, with far fewer queries."""

import uuid
from random import Random

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Membership, User
from apps.feedback.item_opening import open_items
from apps.feedback.models import Rating
from apps.feedback.ratings.stars import NotRatable, Stars, give, give_many
from apps.rewards.models import Reward
from apps.rewards.scoring import hand_on
from apps.rollouts.models import Group, Rollout

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(new_run, finish):
    """Return a function that creates two groups of one run that wait for people, and one that is
    closed.
    """

    def make() -> list[Group]:
        run = new_run(group_size=3, people={"per_group": 2, "deadline_s": 60})
        groups = finish(run, groups=3)
        for group in groups:
            with transaction.atomic():
                hand_on([group])
                open_items([group])
        closed = Group.objects.get(pk=groups[-1].pk)
        closed.drop("for the test")
        return groups

    return make


def rater_named(project, name: str) -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
    return user


def drawn(groups: list[Group], seed: int) -> list[tuple[int, int, int, uuid.UUID]]:
    """Return (group index, sample index, stars, client uuid): first ratings, changes and
    repetitions.
    """
    random = Random(seed)
    words = [
        (
            random.randrange(len(groups)),
            random.randrange(3),
            random.randint(1, 5),
            uuid.UUID(int=random.getrandbits(128)),
        )
        for _ in range(12)
    ]
    return words + random.sample(words, 4)


def submissions(groups: list[Group], words: list[tuple]) -> list[Stars]:
    return [
        Stars(Rollout.objects.get(group=groups[g], sample_index=s).pk, stars, client)
        for g, s, stars, client in words
    ]


def story(groups: list[Group], rater: User) -> tuple:
    """Return everything that ratings store, without ids and without lateness, which depends on the
    moment.
    """
    ratings = Rating.objects.filter(rater=rater, rollout__group__in=groups).select_related(
        "rollout__group"
    )
    made = {r: Reward.objects.get(rating_reward__rating=r) for r in ratings}
    rewards = {r: (made[r].value, made[r].is_current, made[r].details["stars"]) for r in ratings}
    places = {r: (groups.index(r.rollout.group), r.rollout.sample_index) for r in ratings}
    rows = [(places[r], r.stars, r.client_uuid, rewards[r]) for r in ratings]
    return sorted(rows, key=str), [Group.objects.get(pk=group.pk).state for group in groups]


@pytest.mark.parametrize("seed", range(8))
def test_bulk_and_single_submission_store_the_same(project, waiting, seed):
    here = waiting()
    there = waiting()
    words = drawn(here, seed)
    bulk = rater_named(project, "bulk")
    single = rater_named(project, "single")
    outcomes = give_many(bulk, submissions(here, words))
    one_by_one = [give(single, submission) for submission in submissions(there, words)]
    assert story(here, bulk) == story(there, single)
    assert [(o.stars, o.client_uuid) for o in outcomes] == [
        (o.stars, o.client_uuid) for o in one_by_one
    ]


def test_ratings_of_one_call_are_all_in_time(waiting, bob):
    group, *_ = waiting()
    given = [Stars(rollout.pk, 3, uuid.uuid4()) for rollout in group.rollouts.order_by("pk")]
    assert not any(outcome.is_late for outcome in give_many(bob, given))


def test_outcomes_are_in_the_order_of_the_submissions(waiting, bob, carol):
    [group, *_] = waiting()
    first, second, _ = Rollout.objects.filter(group=group).order_by("sample_index")
    asked = [
        Stars(2**40, 3, uuid.uuid4()),
        Stars(second.pk, 5, uuid.uuid4()),
        Stars(first.pk, 1, uuid.uuid4()),
    ]
    unknown, *taken = give_many(bob, asked)
    assert isinstance(unknown, NotRatable)
    assert [(rating.rollout_id, rating.stars) for rating in taken] == [
        (second.pk, 5),
        (first.pk, 1),
    ]
    assert all(isinstance(outcome, NotRatable) for outcome in give_many(carol, asked))


def test_last_rating_of_a_rollout_is_the_current_one(waiting, bob):
    [group, *_] = waiting()
    rollout = Rollout.objects.filter(group=group).first()
    give_many(bob, [Stars(rollout.pk, stars, uuid.uuid4()) for stars in (1, 4, 2)])
    assert list(
        Reward.objects.filter(rollout=rollout, by=bob, is_current=True).values_list(
            "value", flat=True
        )
    ) == [0.25]
    assert Rating.objects.filter(rollout=rollout).count() == 3


@pytest.mark.parametrize("ratings", [3, 30])
def test_queries_grow_with_groups_and_not_with_ratings(waiting, bob, ratings):
    asked = submissions(waiting(), [(0, n % 3, 3, uuid.uuid4()) for n in range(ratings)])
    with CaptureQueriesContext(connection) as captured:
        give_many(bob, asked)
    assert len(captured) <= 22
