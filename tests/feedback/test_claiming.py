"""Claiming an item: the most urgent first, by one person, for a limited time, and only with
permission.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from apps.accounts.models import Membership, User
from apps.feedback.claiming import (
    HeldItem,
    NotHeld,
    WaitingCount,
    claim,
    give_back_item,
    held_by,
    skip,
    take_again,
    waiting_for,
)
from apps.feedback.group_completion import close_ended, close_overdue
from apps.feedback.lease_renewal import extend_item_lease
from apps.feedback.models import Intervention, Item, Slot
from apps.feedback.ratings.items import submit
from apps.rollouts.models import Group
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

pytestmark = pytest.mark.django_db

ASKING = {"per_group": 2, "deadline_s": 600}


@pytest.fixture
def run(new_run):
    return new_run(people=ASKING)


def shift(slot_id: int, seconds: float) -> None:
    """Move this slot's lease into the past by that many seconds."""
    slot = Slot.objects.get(pk=slot_id)
    Slot.objects.filter(pk=slot_id).update(
        lease_until=slot.lease_until - timedelta(seconds=seconds),
        held_at=slot.held_at - timedelta(seconds=seconds),
    )


def test_claimed_item_has_its_form_prompt_and_lease(run, finish, bob):
    ask(run, finish, ["one", "two"])
    (held,) = claim(bob)
    assert (held.form, held.run_slug, held.fence, held.version) == ("stars", run.slug, 1, 1)
    assert held.lease_s == 120 and held.members[0].text in ("one", "two")
    assert held.prompt[0]["role"] == "user"


def test_unconfirmed_claim_ends_soon(run, finish, bob):
    ask(run, finish)
    [held] = claim(bob, unconfirmed_s=30)
    slot = Slot.objects.get(pk=held.slot_id)
    assert held.lease_s == 30 and (slot.lease_until - slot.held_at).total_seconds() == 30
    assert extend_item_lease(bob, held.slot_id, held.fence) == pytest.approx(120), (
        "a confirmed claim lasts"
    )


def test_claimed_item_is_not_given_to_another_rater(run, finish, alice, bob):
    ask(run, finish)
    mine = claim(bob, count=2)
    theirs = claim(alice, count=2)
    assert len(mine) == 2 and theirs == []


def test_stranger_can_claim_nothing(run, finish, carol):
    ask(run, finish)
    assert claim(carol) == [] and waiting_for(carol, 99).count == 0


def test_viewer_can_claim_nothing(run, finish, project):
    viewer = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=viewer, role=Membership.Role.VIEWER)
    ask(run, finish)
    assert claim(viewer) == []


def test_administrator_can_rate_in_every_project(run, finish, admin):
    ask(run, finish)
    assert len(claim(admin)) == 1


def test_only_configured_people_may_rate(new_run, finish, alice, bob):
    ask(new_run(people={**ASKING, "raters": {"people": ["alice"]}}), finish)
    assert claim(bob) == [] and len(claim(alice)) == 1


def test_only_configured_rater_groups_may_rate(new_run, finish, alice, bob):
    bob.rater_groups.add(bob.memberships.get().project.rater_groups.create(name="physicians"))
    ask(new_run(people={**ASKING, "raters": {"groups": ["physicians"]}}), finish)
    assert claim(alice) == [] and len(claim(bob)) == 1


def test_paused_run_offers_no_items(run, finish, bob):
    ask(run, finish)
    run.pause()
    assert claim(bob) == []


def test_rater_can_hold_only_as_many_items_as_the_run_allows(new_run, finish, bob):
    ask(new_run(people={**ASKING, "open_claims": 2}), finish, groups=2)
    assert len(claim(bob, count=5)) == 2
    assert claim(bob) == []


def test_most_urgent_item_comes_first(run, finish, bob):
    first, second = ask(run, finish, groups=2)
    Slot.objects.filter(group=second).update(due_at=Now() - timedelta(hours=1))
    assert {claim(bob)[0].group_id, claim(bob)[0].group_id} == {second.pk}
    assert claim(bob)[0].group_id == first.pk


def test_person_gets_an_item_only_once_even_if_it_needs_several_ratings(
    new_run, finish, alice, bob
):
    ask(new_run(people={**ASKING, "overlap": 2}), finish)
    mine = claim(bob, count=4)
    assert len({held.item_id for held in mine}) == len(mine) == 2
    assert {held.item_id for held in claim(alice, count=4)} == {held.item_id for held in mine}


def test_skipped_item_goes_to_others_and_not_back(run, finish, alice, bob):
    ask(run, finish)
    (held,) = claim(bob)
    skip(bob, held.slot_id, held.fence, "cannot read it")
    assert held.item_id not in {other.item_id for other in claim(bob, count=4)}
    assert held.item_id in {other.item_id for other in claim(alice, count=4)}


def test_returned_item_may_come_again(run, finish, bob):
    ask(run, finish)
    (held,) = claim(bob)
    give_back_item(bob, held.slot_id, held.fence)
    (again,) = claim(bob)
    assert (again.item_id, again.fence) == (held.item_id, held.fence + 1)


def test_rater_does_not_get_replies_that_they_edited(run, finish, bob):
    (group,) = ask(run, finish)
    for rollout in group.rollouts.all():
        Intervention.objects.create(
            rollout=rollout,
            by=bob,
            kind="edit",
            text="mine",
            state="done",
            client_uuid="0" * 31 + str(rollout.sample_index),
        )
    assert claim(bob) == []


def test_lease_lasts_three_median_rating_times(run, finish, bob):
    ask(run, finish, groups=2)
    for seconds in (20, 30, 40):
        (held,) = claim(bob)
        submit(bob, held.slot_id, answer_to(held, {"stars": 3}, seconds=seconds))
    assert claim(bob)[0].lease_s == pytest.approx(90)


def test_lease_time_can_be_configured_in_the_run(new_run, finish, bob):
    ask(new_run(people={**ASKING, "lease_s": 7}), finish)
    assert claim(bob)[0].lease_s == 7


def test_heartbeat_extends_the_lease(run, finish, bob):
    ask(run, finish)
    (held,) = claim(bob)
    shift(held.slot_id, 100)
    assert extend_item_lease(bob, held.slot_id, held.fence) == pytest.approx(120, abs=2)


def test_an_expired_lease_frees_the_item(run, finish, alice, bob):
    ask(run, finish)
    (held,) = claim(bob)
    shift(held.slot_id, 121)
    assert Slot.objects.expire() == 1
    assert held.item_id in {other.item_id for other in claim(alice, count=4)}


def test_late_rater_can_extend_the_lease_if_nobody_else_claimed_the_item(run, finish, bob):
    ask(run, finish)
    (held,) = claim(bob)
    shift(held.slot_id, 121)
    Slot.objects.expire()
    assert extend_item_lease(bob, held.slot_id, held.fence) > 100


def test_late_rater_with_the_maximum_of_items_cannot_extend_a_lease(new_run, finish, bob):
    ask(new_run(people={**ASKING, "open_claims": 1}), finish)
    (held,) = claim(bob)
    shift(held.slot_id, 121)
    (other,) = claim(bob)
    with pytest.raises(NotHeld, match="the maximum number of items"):
        extend_item_lease(bob, held.slot_id, held.fence)
    give_back_item(bob, other.slot_id, other.fence)
    assert extend_item_lease(bob, held.slot_id, held.fence) > 100


def test_rater_who_lost_the_lease_is_told_that_another_rater_has_the_item(run, finish, alice, bob):
    ask(run, finish)
    (held,) = claim(bob)
    shift(held.slot_id, 121)
    Slot.objects.expire()
    claim(alice, count=4)
    with pytest.raises(NotHeld, match="Another rater has this item now"):
        extend_item_lease(bob, held.slot_id, held.fence)


def test_rater_cannot_extend_a_claim_of_another(run, finish, alice, bob):
    ask(run, finish)
    (held,) = claim(bob)
    with pytest.raises(NotHeld):
        extend_item_lease(alice, held.slot_id, held.fence)
    with pytest.raises(NotHeld):
        held_by(alice, held.slot_id)


def test_expired_item_of_a_closed_group_is_closed(run, finish, bob):
    (group,) = ask(run, finish)
    (held,) = claim(bob)
    shift(held.slot_id, 121)
    type(group).objects.filter(pk=group.pk).update(state="judged")
    Slot.objects.expire()
    assert Slot.objects.get(pk=held.slot_id).state == Slot.State.CLOSED


@pytest.mark.parametrize(
    "give_up",
    [give_back_item, lambda *held: skip(*held, "too late")],
    ids=["given back", "passed over"],
)
def test_item_given_up_after_its_group_closed_is_not_offered_again(
    run, finish, alice, bob, give_up
):
    (group,) = ask(run, finish)
    (held,) = claim(bob)
    Group.objects.filter(pk=group.pk).update(deadline_at=Now())
    assert close_overdue() == 1
    give_up(bob, held.slot_id, held.fence)
    assert Slot.objects.get(pk=held.slot_id).state == Slot.State.CLOSED
    assert claim(alice, count=4) == []


def test_items_of_an_ended_run_are_closed(run, finish):
    (group,) = ask(run, finish)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED)
    assert close_ended() == 1
    group.refresh_from_db()
    assert (
        group.state == Group.State.DROPPED
        and not Slot.objects.filter(state=Slot.State.OPEN).exists()
    )


def test_count_of_waiting_items_is_limited(run, finish, bob):
    ask(run, finish, groups=3)
    assert (waiting_for(bob, 99).open, waiting_for(bob, 4).open) == (6, 4)


def test_own_claimed_items_count_as_held_until_their_lease_ends(run, finish, alice, bob):
    ask(run, finish, groups=3)
    held = claim(bob, count=2)
    assert waiting_for(bob, 99) == WaitingCount(open=4, held=2)
    assert waiting_for(alice, 99) == WaitingCount(open=4, held=0)
    assert waiting_for(bob, 99, run=run.pk + 1) == WaitingCount(open=0, held=0)
    Slot.objects.filter(pk=held[0].slot_id).update(lease_until=Now() - timedelta(seconds=1))
    assert waiting_for(bob, 99) == WaitingCount(open=4, held=1)


def test_page_of_one_run_returns_a_claimed_item_of_another_run(new_run, finish, bob):
    first = new_run(people=ASKING)
    other = new_run(people=ASKING)
    ask(first, finish)
    (held,) = claim(bob, run=first.pk)
    assert take_again(bob, [held.slot_id], [held.fence], run=other.pk) == []
    slot = Slot.objects.get(pk=held.slot_id)
    assert (slot.state, slot.rater) == (Slot.State.OPEN, None)
    (held,) = claim(bob, run=first.pk)
    (again,) = take_again(bob, [held.slot_id], [held.fence], run=first.pk)
    assert again.slot_id == held.slot_id


def test_compared_replies_are_shown_in_random_order(new_run, finish, bob):
    ask(
        new_run(
            people={**ASKING, "form": "pairwise", "pairs": 1, "open_claims": 100},
            groups_per_step=40,
        ),
        finish,
        groups=40,
    )
    held = [claim(bob)[0] for _ in range(40)]
    swapped = sum(item.shown != sorted(item.shown) for item in held)
    assert 5 < swapped < 35  # chance of failing 1 in 10^7
    assert all(sorted(item.shown) == Item.objects.get(pk=item.item_id).members for item in held)


@pytest.mark.django_db(transaction=True)
def test_two_connections_never_claim_the_same_slot(new_run, finish, alice, bob):
    ask(new_run(people={**ASKING, "open_claims": 100}, groups_per_step=20), finish, groups=20)

    def take(user) -> list[int]:
        try:
            return [held.slot_id for _ in range(30) for held in claim(user)]
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(take, [alice, bob])
    assert len(first) + len(second) == 40 and not set(first) & set(second)


@pytest.mark.django_db(transaction=True)
def test_two_windows_that_claim_at_once_stay_within_the_limit(new_run, finish, bob, eventually):
    ask(new_run(people={**ASKING, "open_claims": 2}, groups_per_step=4), finish, groups=4)

    def take() -> list[HeldItem]:
        try:
            return claim(bob, count=5)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = claim(bob)
            second = pool.submit(take)  # the other window's statement begins before this one's end
            eventually(waits_for_its_turn)
        assert len(first) == len(second.result()) == 1
    assert Slot.objects.filter(rater=bob, state=Slot.State.HELD).count() == 2


@pytest.mark.django_db(transaction=True)
def test_extending_a_late_lease_during_another_claim_stays_within_the_limit(
    new_run, finish, bob, eventually
):
    ask(new_run(people={**ASKING, "open_claims": 1}), finish)
    (late,) = claim(bob)
    shift(late.slot_id, 121)

    def take_up() -> object:
        try:
            return extend_item_lease(bob, late.slot_id, late.fence)
        except NotHeld as refused:
            return refused.next
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            (taken,) = claim(bob)
            answer = pool.submit(take_up)
            eventually(waits_for_its_turn)
        assert "the maximum number of items" in answer.result()
    in_hand = Slot.objects.filter(rater=bob, state=Slot.State.HELD, lease_until__gt=Now())
    assert [slot.pk for slot in in_hand] == [taken.slot_id]


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_expires_while_its_run_is_closed_leaves_no_open_slot_behind(
    run, finish, bob, eventually
):
    (group,) = ask(run, finish)
    (held,) = claim(bob)
    shift(held.slot_id, 121)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED)

    def close() -> int:
        try:
            return close_ended()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert Slot.objects.expire() == 1
            closed = pool.submit(close)
            eventually(lambda: closed.done() or waits_for_a_row())
        assert closed.result() == 1
    assert set(Slot.objects.filter(group=group).values_list("state", flat=True)) == {"closed"}


def waits_for_a_row() -> bool:
    """Tell whether some transaction waits for another to end."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS"
            " (SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)"
        )
        return cursor.fetchone()[0]


def waits_for_its_turn() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
        )
        return cursor.fetchone()[0]
