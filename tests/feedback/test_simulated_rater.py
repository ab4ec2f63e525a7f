"""The simulated rater: marked as simulated, waits for people, can be switched off, follows the
scorer, and counts once.
"""

from collections import Counter
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import Token
from apps.feedback import simulated
from apps.feedback.item_opening import open_items
from apps.feedback.models import Rating
from apps.feedback.ratings.stars import Stars, give
from apps.rewards.scoring import hand_on
from apps.rollouts.models import Group, Rollout

pytestmark = pytest.mark.django_db

AT_ONCE = simulated.Patience(0.0, 0.0)


@pytest.fixture
def waiting(new_run, finish):
    """Return a function that starts a run whose first group waits for people; keywords replace
    fields of its `people`.
    """

    def make(texts=("12345",), **people):
        settings = {"per_group": 2, "deadline_s": 60, "simulated": True} | people
        run = new_run(group_size=4, people=settings)
        (group,) = finish(run, texts=list(texts))
        with transaction.atomic():
            hand_on([group])
            open_items([group])
        return Group.objects.get(pk=group.pk)

    return make


@pytest.fixture
def rater(project):
    return simulated.account()


def submit(user, ratings) -> None:
    for rating in ratings:
        give(user, Stars(rating["rollout"], rating["stars"], UUID(rating["client_uuid"])))


def test_account_is_marked_as_simulated_and_nobody_can_log_in_to_it(rater):
    assert rater.is_simulated and not rater.has_usable_password()
    assert simulated.account() == rater


def test_new_token_invalidates_the_previous_one(rater):
    first = simulated.fresh_token(rater)
    second = simulated.fresh_token(rater)
    assert Token.objects.presented(first) is None
    assert Token.objects.presented(second).scopes == ["rate"]


def test_simulated_rater_gives_only_the_ratings_that_a_group_still_needs(rater, waiting):
    group = waiting()
    ratings = simulated.due_ratings(rater, AT_ONCE)
    assert len(ratings) == 2
    submit(rater, ratings)
    group.refresh_from_db()
    assert group.state == Group.State.JUDGED
    assert simulated.due_ratings(rater, AT_ONCE) == []


def test_reply_rated_by_a_person_is_not_rated_again(rater, bob, waiting):
    group = waiting()
    chosen = simulated.due_ratings(rater, AT_ONCE)[0]["rollout"]
    submit(
        bob,
        [{"rollout": chosen, "stars": 5, "client_uuid": "00000000-0000-4000-8000-000000000001"}],
    )
    left = simulated.due_ratings(rater, AT_ONCE)
    assert len(left) == 1 and left[0]["rollout"] != chosen
    assert Rollout.objects.get(pk=left[0]["rollout"]).group_id == group.pk


def test_people_get_a_finished_group_first(rater, waiting):
    waiting()
    assert simulated.due_ratings(rater, simulated.Patience(30.0, 30.0)) == []


def test_people_get_an_item_first_however_long_its_scoring_took(rater, waiting):
    waiting()
    Group.objects.update(sampled_at=Now() - timedelta(hours=1))
    assert simulated.due_ratings(rater, simulated.Patience(30.0, 30.0)) == []


def test_simulated_rater_waits_longer_while_a_person_is_rating(rater, bob, waiting):
    group = waiting()
    patience = simulated.Patience(0.0, 30.0)
    assert simulated.due_ratings(rater, patience)
    rollout = Rollout.objects.filter(group=group).first()
    submit(
        bob,
        [
            {
                "rollout": rollout.pk,
                "stars": 2,
                "client_uuid": "00000000-0000-4000-8000-000000000002",
            }
        ],
    )
    assert simulated.due_ratings(rater, patience) == []


def test_simulated_rater_can_be_switched_off_and_on_in_the_run(rater, alice, waiting):
    run = waiting().run
    run.change_config(alice, people={"simulated": False})
    assert simulated.due_ratings(rater, AT_ONCE) == []
    run.change_config(alice, people={"simulated": True})
    assert len(simulated.due_ratings(rater, AT_ONCE)) == 2


def test_a_paused_run_is_not_rated(rater, waiting):
    waiting().run.pause()
    assert simulated.due_ratings(rater, AT_ONCE) == []


def test_same_rollout_gets_the_same_simulated_rating_again(rater, waiting):
    waiting()
    first = simulated.due_ratings(rater, AT_ONCE)
    second = simulated.due_ratings(rater, AT_ONCE)
    assert first == second
    submit(rater, [*first, *second])
    assert Rating.objects.count() == 2


@pytest.mark.parametrize(("text", "expected"), [("12345", {4, 5}), ("54321", {1, 2})])
def test_simulated_stars_follow_the_runs_own_scorer(rater, waiting, text, expected):
    group = waiting(texts=[text])
    assert group.task.answer == {"sorted": "12345"}
    assert {
        simulated.stars_for(rollout)
        for rollout in Rollout.objects.filter(group=group).select_related("run")
    } <= expected


@pytest.mark.parametrize("stars", [1, 2, 3, 4, 5])
def test_up_to_about_a_quarter_of_simulated_stars_differ_by_one_within_the_scale(stars):
    seen = Counter(simulated.noisy(stars, Random(seed)) for seed in range(4000))
    assert set(seen) <= {1, 2, 3, 4, 5} & {stars - 1, stars, stars + 1}
    share = seen[stars] / 4000
    assert 0.72 < share < (0.91 if stars in (1, 5) else 0.78)
