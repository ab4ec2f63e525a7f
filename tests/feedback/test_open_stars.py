"""Stars from the holder of an item; without a claim only if the run accepts them, and only from
`overlap` people.
"""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from apps.feedback.claiming import claim
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Rating, Slot
from apps.feedback.quality.decisions import newest_decisions
from apps.feedback.ratings.items import submit
from apps.feedback.ratings.stars import (
    EnoughRated,
    NotHeld,
    Stars,
    give,
    give_many,
    openly_ratable_by,
    waiting_rollouts,
)
from apps.feedback.simulated import Patience, due_claims, due_ratings
from apps.rollouts.models import Group
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask
from tests.locks import somebody_waits

AT_ONCE = Patience(0.0, 0.0)


def asked(new_run, finish, **people) -> Group:
    run = new_run(people={"per_group": 2, "deadline_s": 600, **people})
    return ask(run, finish)[0]


def stars(rollout: int, n: int = 4) -> Stars:
    return Stars(rollout, n, uuid.uuid4())


def rollouts_of(group: Group) -> list[int]:
    return list(group.rollouts.order_by("pk").values_list("pk", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize("overlap", [1, 2])
def test_reply_gets_ratings_from_at_most_overlap_people(
    new_run, finish, alice, bob, admin, overlap
):
    first, _ = rollouts_of(asked(new_run, finish, overlap=overlap))
    raters = [alice, bob, admin]
    for rater in raters[:overlap]:
        give(rater, stars(first))
    for rater in raters[overlap:]:
        with pytest.raises(EnoughRated, match="enough raters"):
            give(rater, stars(first))
    give(alice, stars(first, 1))  # a changed rating takes no further place
    assert Rating.objects.counting().filter(rollout=first).count() == overlap
    # 500 votes in one request are one current vote.
    outcomes = give_many(alice, [stars(first, n % 5 + 1) for n in range(20)])
    assert all(isinstance(outcome, Rating) for outcome in outcomes)
    assert Rating.objects.counting().filter(rollout=first, rater=alice).count() == 1


@pytest.mark.django_db
def test_holder_of_a_reply_keeps_their_place(new_run, finish, alice, bob):
    group = asked(new_run, finish)
    (held,) = claim(alice, group.run_id, 1)
    (rollout,) = held.shown
    with pytest.raises(EnoughRated):
        give(bob, stars(rollout))
    give(alice, stars(rollout))
    assert Slot.objects.get(pk=held.slot_id).state == Slot.State.DONE
    give(bob, stars(next(other for other in rollouts_of(group) if other != rollout)))
    decided = {one.name: one.is_claimed for one in newest_decisions(group.run, claims=True)}
    assert decided == {"alice": True, "bob": False}


@pytest.mark.django_db
def test_run_without_open_stars_accepts_only_stars_of_the_items_holder(new_run, finish, alice, bob):
    group = asked(new_run, finish, open_stars=False)
    (held,) = claim(alice, group.run_id, 1)
    mine, *_ = held.shown
    other = next(rollout for rollout in rollouts_of(group) if rollout != mine)
    for rater, rollout in ((alice, other), (bob, mine), (bob, other)):
        with pytest.raises(NotHeld, match="Claim it"):
            give(rater, stars(rollout))
    given = give(alice, stars(mine))
    given.refresh_from_db()
    assert given.item_id == held.item_id
    assert give(alice, stars(mine, 1)).stars == 1  # a changed rating needs no new claim
    assert not waiting_rollouts(bob).exists()


@pytest.mark.django_db
def test_simulated_rating_takes_no_persons_place(new_run, finish, bob, carol):
    first, _ = rollouts_of(asked(new_run, finish))
    bob.is_simulated = True
    bob.save()
    give(bob, stars(first))
    carol.is_superuser = True
    carol.save()
    give(carol, stars(first))
    assert Rating.objects.counting().filter(rollout=first).count() == 2


@pytest.mark.django_db
def test_older_run_without_the_setting_accepts_open_stars(new_run, finish, bob):
    group = asked(new_run, finish)
    config = group.run.config
    del config["people"]["open_stars"]
    Run.objects.update(config=config)
    replies = group.rollouts.values_list("pk", flat=True)
    assert waiting_rollouts(bob).count() == openly_ratable_by(bob, replies).count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("is_open", [True, False])
def test_simulated_rater_claims_items_when_stars_need_a_claim(new_run, finish, bob, is_open):
    group = asked(new_run, finish, open_stars=is_open, simulated=True)
    assert len(due_ratings(bob, AT_ONCE)) == (2 if is_open else 0)
    assert due_claims(bob, AT_ONCE) == ({} if is_open else {group.run_id: 2})


@pytest.mark.django_db(transaction=True)
def test_two_connections_never_exceed_the_overlap(new_run, finish, alice, bob):
    group = asked(new_run, finish)
    together = threading.Barrier(2)

    def rate(rater) -> list:
        try:
            together.wait(120)
            return give_many(rater, [stars(rollout) for rollout in rollouts_of(group)])
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        outcomes = [outcome for found in pool.map(rate, (alice, bob)) for outcome in found]
    assert (
        sorted(type(outcome).__name__ for outcome in outcomes)
        == ["EnoughRated"] * 2 + ["Rating"] * 2
    )
    assert Rating.objects.counting().count() == 2


@pytest.mark.django_db(transaction=True)
def test_stars_do_not_take_an_item_that_is_claimed_at_the_same_time(
    new_run, finish, alice, bob, eventually
):
    group = asked(new_run, finish)

    def rate() -> None:
        try:
            give_many(alice, [stars(rollout) for rollout in rollouts_of(group)])
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            [held] = claim(bob)
            rated = pool.submit(rate)
            eventually(lambda: rated.done() or somebody_waits())
        rated.result()
    assert Slot.objects.get(pk=held.slot_id).rater == bob
    submit(bob, held.slot_id, answer_to(held, {"stars": 4}))
    assert Rating.objects.filter(rater=bob).count() == 1


@pytest.mark.django_db
def test_stars_on_the_live_page_store_the_same_rows_as_a_rating_page(new_run, finish, bob):
    group = asked(new_run, finish, open_stars=True)
    decided, *_ = claim(bob)
    [free] = set(rollouts_of(group)) - set(decided.shown)
    submit(bob, decided.slot_id, answer_to(decided, {"stars": 4}))
    give(bob, stars(free, 4))
    names = ("form", "answer", "critique", "is_current", "is_late", "is_withdrawn", "item__state")
    reward = ("source", "scorer", "value", "reason", "details", "by", "is_current")
    rewards = [f"rating_rewards__reward__{name}" for name in reward]
    first, second = Rating.objects.order_by("pk").values(*names, *rewards)
    assert first == second
    slots = Slot.objects.filter(group=group).values_list("state", "rater", "lease_until")
    assert list(slots) == [("done", bob.pk, None)] * 2


@pytest.mark.django_db
@pytest.mark.parametrize("count", [0, 6])
def test_stars_outside_the_scale_are_rejected(new_run, finish, bob, count):
    rollout = rollouts_of(asked(new_run, finish, open_stars=True))[0]
    with pytest.raises(BadAnswer, match="stars: must be a whole number from 1 to 5"):
        give(bob, stars(rollout, count))
    assert not Rating.objects.exists()
