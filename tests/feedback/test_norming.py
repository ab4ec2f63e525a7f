"""The norming round: every rater rates the same explained items before anything else."""

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from apps.feedback import known_items
from apps.feedback.claiming import NotHeld, claim, give_back_item, skip, waiting_for
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Item, Rating, Slot
from apps.feedback.norming import Place, place_in_round, round_of
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.items import submit
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(new_run, finish) -> Run:
    """Create a run with two norming items, whose groups wait for people."""
    run = new_run(people={"per_group": 2, "deadline_s": 600})
    ask(run, finish, groups=3)
    for rollout in Rollout.objects.filter(run=run).order_by("pk")[:2]:
        known_items.create_known_item(
            run, [rollout], "norming", {"stars": 5}, "It is polite.", run.owner
        )
    return run


def purposes(held) -> list[str]:
    return [Item.objects.get(pk=item.item_id).purpose for item in held]


def test_norming_items_come_first_in_the_same_order_for_everybody(run, alice, bob):
    expected = list(Item.objects.filter(purpose="norming").order_by("pk"))
    for person in (alice, bob):
        assert [held.item_id for held in claim(person, count=3)] == [one.pk for one in expected]
        assert claim(person, count=3) == [], "no other items before the norming items are rated"


def test_other_items_come_once_all_norming_items_are_rated(run, bob):
    first, second = claim(bob, count=2)
    submit(bob, first.slot_id, answer_to(first, {"stars": 5}))
    assert claim(bob) == []
    submit(bob, second.slot_id, answer_to(second, {"stars": 1}))
    assert purposes(claim(bob, count=2)) == ["reward", "reward"]
    assert place_in_round(run.pk, second.item_id) == Place(2, 2)


def test_norming_rating_is_explained_with_agreement_and_is_final(run, alice, bob):
    for person, stars, met in ((alice, 1, 0), (bob, 4, 1)):
        [held] = claim(person)
        taken = submit(person, held.slot_id, answer_to(held, {"stars": stars}))
        assert taken.gold["met"] is bool(met) and taken.gold["explanation"] == "It is polite."
    assert taken.gold["words"] == "5 of 5 stars" and taken.gold["others"] == {"met": 1, "of": 2}
    said = Rating.objects.get(rater=bob)
    with pytest.raises(Refused, match="correct rating"):
        withdraw_decision(bob, said.client_uuid, uuid.uuid4())
    assert not Reward.objects.filter(source="human").exists(), "it is practice, not a reward"


def test_returned_or_expired_norming_item_comes_again(run, bob):
    [held] = claim(bob)
    give_back_item(bob, held.slot_id, held.fence)
    [again] = claim(bob)
    assert again.item_id == held.item_id
    Slot.objects.filter(pk=again.slot_id).update(
        lease_until=Slot.objects.get(pk=again.slot_id).held_at - timedelta(seconds=1)
    )
    Slot.objects.expire()
    assert claim(bob)[0].item_id == held.item_id


def test_norming_item_cannot_be_skipped(run, bob):
    [held] = claim(bob)
    with pytest.raises(NotHeld, match="can’t skip"):
        skip(bob, held.slot_id, held.fence, "hard")


def test_norming_items_count_as_waiting(run, bob):
    Slot.objects.filter(run=run, state="open").update(state="closed")
    assert waiting_for(bob, 100).count == 2


def test_retired_norming_item_blocks_nobody(run, bob):
    for item in Item.objects.filter(purpose="norming"):
        known_items.retire_known_item(item, run.owner)
    assert purposes(claim(bob)) == ["reward"]


def test_a_norming_item_needs_an_explanation(run):
    rollout = Rollout.objects.filter(run=run).first()
    with pytest.raises(BadAnswer) as refused:
        known_items.create_known_item(run, [rollout], "norming", {"stars": 5}, "", run.owner)
    assert "explanation" in refused.value.problems


def test_setup_page_shows_each_raters_norming_progress(run, alice, bob, client):
    [held] = claim(bob)
    submit(bob, held.slot_id, answer_to(held, {"stars": 5}))
    found = {rater.name: (rater.done, rater.met) for rater in round_of(run).raters}
    assert found == {"alice": (0, 0), "bob": (1, 1)}
    client.force_login(alice)
    page = client.get(reverse("run-people", args=[run.project.slug, run.slug]))
    text = " ".join(page.content.decode().split())
    assert "2 items, 2 of 2 raters not done" in text and "1 of 2" in text
