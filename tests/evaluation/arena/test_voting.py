"""Votes: recorded once however often they are sent, changed and withdrawn by new rows, and counted
in their latest state.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import InternalError, connection, transaction
from django.db.utils import DatabaseError

from apps.dashboard.reconciliation import reconcile
from apps.evaluation.arena.making import close_arena, open_again
from apps.evaluation.arena.pairs import name_pair
from apps.evaluation.arena.voting import cast, list_pairings, take_back
from apps.evaluation.models import Contestant, Pairing, Vote
from apps.feedback.forms import BadAnswer
from apps.feedback.ratings.answers import Refused
from tests.evaluation.arena.contests import asked, contest, judge_all, say

CHECKS = ("votes refer to answers of their arena", "arenas count their votes")


@pytest.fixture
def arena(run, finish, alice):
    return contest(run, finish, alice, contestants=2)


def counted(arena) -> int:
    return sum(one.votes for one in list_pairings(arena))


@pytest.mark.django_db
def test_repeated_vote_is_recorded_once(arena, bob):
    [pair] = asked(bob, arena)
    key = uuid.uuid4()
    name = name_pair(arena, bob, pair)
    first = cast(bob, arena, name, "left", key)
    assert cast(bob, arena, name, "left", key) == first.__class__(first.vote, False)
    assert Vote.objects.count() == 1 and counted(arena) == 1
    for other in (("right", name), ("left", name_pair(arena, bob, asked(bob, arena)[0]))):
        with pytest.raises(Refused) as refused:
            cast(bob, arena, other[1], other[0], key)
        assert refused.value.code == "used_uuid"


@pytest.mark.django_db(transaction=True)
def test_vote_sent_over_eight_connections_at_once_is_recorded_once(run, finish, alice, bob):
    arena = contest(run, finish, alice, contestants=2)
    [pair] = asked(bob, arena)
    key = uuid.uuid4()
    name = name_pair(arena, bob, pair)

    def send(_: int):
        try:
            return cast(bob, arena, name, "left", key)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(send, range(8)))
    assert len({one.vote for one in taken}) == 1 and sum(one.is_new for one in taken) == 1
    assert Vote.objects.count() == 1 and counted(arena) == 1


@pytest.mark.django_db(transaction=True)
def test_votes_of_two_people_at_once_are_all_counted(run, finish, alice, bob):
    arena = contest(run, finish, alice, contestants=2)
    todo = [
        (who, name_pair(arena, who, pair)) for who in (alice, bob) for pair in asked(who, arena, 8)
    ]

    def send(one):
        try:
            return cast(one[0], arena, one[1], "tie", uuid.uuid4())
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert all(one.is_new for one in pool.map(send, todo))
    assert counted(arena) == Vote.objects.count() == 16


@pytest.mark.django_db
def test_only_the_newest_vote_of_a_person_counts_and_older_rows_stay(arena, bob):
    [pair] = asked(bob, arena)
    say(bob, arena, pair, "first")
    vote = say(bob, arena, pair, "bad")
    assert counted(arena) == 1 and Vote.objects.count() == 2
    new = uuid.uuid4()
    assert (
        take_back(bob, arena, vote.client_uuid, new)
        == take_back(bob, arena, vote.client_uuid, new)
        == pair
    )
    assert counted(arena) == 0 and list(
        Vote.objects.order_by("pk").values_list("choice", flat=True)
    ) == ["first", "bad", "back"]
    say(bob, arena, pair, "second")
    assert counted(arena) == 1 and {name: reconcile()[name] for name in CHECKS} == {
        name: [] for name in CHECKS
    }


@pytest.mark.django_db
def test_person_can_withdraw_only_their_own_newest_vote(arena, alice, bob):
    [pair] = asked(bob, arena)
    old = say(bob, arena, pair, "first")
    say(bob, arena, pair, "second")
    for who, vote, code in (
        (bob, old.client_uuid, "changed"),
        (alice, old.client_uuid, "gone"),
        (bob, uuid.uuid4(), "gone"),
    ):
        with pytest.raises(Refused) as refused:
            take_back(who, arena, vote, uuid.uuid4())
        assert refused.value.code == code
    assert counted(arena) == 1


@pytest.mark.django_db
def test_closed_arena_accepts_only_repeated_votes(arena, alice, bob):
    one, other = asked(bob, arena, 2)
    key = uuid.uuid4()
    cast(bob, arena, name_pair(arena, bob, one), "left", key)
    close_arena(arena, alice)
    assert not cast(
        bob, arena, name_pair(arena, bob, one), "left", key
    ).is_new  # the response was lost
    with pytest.raises(Refused) as refused:
        cast(bob, arena, name_pair(arena, bob, other), "left", uuid.uuid4())
    assert refused.value.code == "closed"
    open_again(arena, alice)
    assert cast(bob, arena, name_pair(arena, bob, other), "left", uuid.uuid4()).is_new


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["first", "", None, 1, ["left"], "back", "LEFT"])
def test_invalid_choice_is_rejected(arena, bob, value):
    with pytest.raises(BadAnswer) as bad:
        cast(bob, arena, name_pair(arena, bob, asked(bob, arena)[0]), value, uuid.uuid4())
    assert "choice" in bad.value.problems and not Vote.objects.exists()


@pytest.mark.django_db
def test_database_prevents_changing_a_vote(arena, bob):
    vote = say(bob, arena, asked(bob, arena)[0], "first")
    with pytest.raises((DatabaseError, InternalError), match="never changed"), transaction.atomic():
        Vote.objects.filter(pk=vote.pk).update(choice="second")


@pytest.mark.django_db
def test_reconcile_reports_a_wrong_vote_count_and_votes_without_answers(arena, bob, run):
    judge_all(bob, arena, lambda pair: "tie", most=3)
    assert {name: reconcile()[name] for name in CHECKS} == {name: [] for name in CHECKS}
    Pairing.objects.update(votes=5)
    assert reconcile()["arenas count their votes"] == [
        f"pairing {list_pairings(arena)[0].pk}: the counter has 5 votes, the rows 3"
    ]
    Contestant.objects.filter(arena=arena, place=0).update(run=run)
    found = reconcile()["votes refer to answers of their arena"]
    assert len(found) == 4 and "not evaluations" in found[0] and "does not exist" in found[1]
