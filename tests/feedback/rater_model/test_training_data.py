"""Which ratings a rater model learns: none that an adjudication replaced, and no answers to known
items.
"""

import uuid

import pytest

from apps.feedback import known_items
from apps.feedback.group_completion import is_early
from apps.feedback.models import Item, Prediction, Rating
from apps.feedback.rater_model.learning import learn
from apps.feedback.rater_model.training_data import list_learned_ratings
from apps.feedback.ratings.adjudication import adjudicate
from apps.rollouts.models import Rollout
from tests.feedback.quality.deciding import rater

pytestmark = pytest.mark.django_db


def test_only_the_adjudicating_rating_of_a_dispute_is_learned(
    modelled, put, decide, alice, bob, project
):
    run = modelled(overlap=2)
    put(run, groups=2)
    votes = decide(bob, run) + decide(rater(project, "ann"), run, answer=lambda held: {"stars": 2})
    assert learn(run).learner.decisions == len(votes) == 8
    item = Item.objects.filter(run=run).first()
    word = adjudicate(item.pk, alice, "stars", {"stars": 4}, uuid.uuid4()).adjudication.rating
    about = [rating.pk for rating in votes if rating.item_id == item.pk]
    assert set(list_learned_ratings(run).values_list("pk", flat=True)) == {
        rating.pk for rating in votes
    } - set(about) | {word.pk}
    known = learn(run)
    assert known.learner.decisions == 7 and known.ratings.keys().isdisjoint(about)


def test_stars_on_an_adjudicated_reply_are_not_learned(modelled, put, decide, alice, bob, project):
    run = modelled()
    put(run, groups=2)
    decide(bob, run)
    item = Item.objects.filter(run=run).first()
    about = {
        "rollout_id": item.members[0],
        "form": "stars",
        "answer": {"stars": 1},
        "client_uuid": uuid.uuid4(),
    }
    loose = Rating.objects.create(run=run, rater=rater(project, "ann"), **about)
    assert loose in list_learned_ratings(run)
    adjudicate(item.pk, alice, "stars", {"stars": 4}, uuid.uuid4())
    assert loose not in list_learned_ratings(run) and list_learned_ratings(run).count() == 4


@pytest.mark.parametrize("purpose", ["gold", "attention"])
def test_answers_to_known_items_are_neither_learned_nor_awaited(
    modelled, put, decide, alice, bob, purpose
):
    share = "rate" if purpose == "gold" else "attention"
    run = modelled(gold={share: 1.0})
    put(run, groups=4)
    for rollout in Rollout.objects.filter(run=run)[:4]:
        known_items.create_known_item(
            run,
            known_items.candidates(run, [rollout.pk]),
            purpose,
            {"stars": 5},
            "It is polite.",
            alice,
        )
    decide(bob, run, 4)
    assert set(Rating.objects.values_list("item__purpose", flat=True)) == {purpose}
    assert learn(run).learner.decisions == 0 and is_early(run)
    decide(bob, run, 4)
    assert learn(run).learner.decisions == 4 and not is_early(run)
    assert not Prediction.objects.exists()
