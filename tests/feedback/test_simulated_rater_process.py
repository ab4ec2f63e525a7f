"""The simulated rater's program against a real web server: it posts as anybody does, and outlives
what dies.
"""

import socket
import threading

import pytest
from django.db import connection, transaction

from apps.accounts.models import Token
from apps.feedback.item_opening import open_items
from apps.feedback.models import Rating
from apps.feedback.simulated import TOKEN_NAME, Patience
from apps.rewards.models import Reward
from apps.rewards.scoring import hand_on
from apps.rollouts.models import Group
from rftweb.management.commands.simulated_rater import LOOK_S, OUTAGE_S, Rater

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = Patience(0.0, 0.0)


@pytest.fixture
def group(new_run, finish) -> Group:
    """A group that waits for people in a run whose switch is on."""
    run = new_run(group_size=4, people={"per_group": 3, "deadline_s": 60, "simulated": True})
    (group,) = finish(run)
    with transaction.atomic():
        hand_on([group])
        open_items([group])
    return group


def test_its_ratings_arrive_through_the_public_endpoint_and_settle_the_group(live_server, group):
    assert Rater(live_server.url, AT_ONCE).turn() == LOOK_S
    group.refresh_from_db()
    assert group.state == Group.State.JUDGED
    assert set(Rating.objects.values_list("rater__username", "rater__is_simulated")) == {
        ("simulated-rater", True)
    }
    assert Reward.objects.filter(source=Reward.Source.HUMAN, by__is_simulated=True).count() == 3


def test_a_web_process_that_is_away_is_waited_for(live_server, group):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # ours for as long as it is asked, and nobody listens there
        rater = Rater(f"http://127.0.0.1:{taken.getsockname()[1]}", AT_ONCE)
        assert rater.turn() == OUTAGE_S
    rater.site = Rater(live_server.url, AT_ONCE).site
    assert rater.turn() == LOOK_S
    assert Rating.objects.count() == 3


def test_a_token_that_was_revoked_is_replaced(live_server, group):
    rater = Rater(live_server.url, AT_ONCE)
    rater._introduce_once()
    Token.objects.get(name=TOKEN_NAME, revoked_at=None).revoke()
    assert rater.turn() == OUTAGE_S
    assert rater.turn() == LOOK_S
    assert Rating.objects.count() == 3


def test_a_database_connection_that_was_cut_is_made_anew(live_server, group):
    rater = Rater(live_server.url, AT_ONCE)
    rater._introduce_once()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    killer = threading.Thread(target=_terminate, args=(backend,))
    killer.start()
    killer.join()
    assert rater.turn() == OUTAGE_S
    assert rater.turn() == LOOK_S
    assert Rating.objects.count() == 3


def _terminate(backend: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [backend])
    connection.close()


@pytest.mark.parametrize("form", ["thumbs", "pairwise", "ranking", "best_worst", "rubric", "turns"])
def test_it_decides_every_form_that_asks_for_no_words(live_server, new_run, finish, form):
    rubric = [{"name": "kind", "low": 0, "high": 3}] if form == "rubric" else []
    people = {
        "form": form,
        "per_group": 3,
        "deadline_s": 60,
        "simulated": True,
        "anchor": False,
        "rubric": rubric,
        "open_claims": 9,
    }
    (group,) = finish(new_run(group_size=4, people=people))
    with transaction.atomic():
        hand_on([group])
        open_items([group])
    Rater(live_server.url, AT_ONCE).turn()
    group.refresh_from_db()
    assert group.state == Group.State.JUDGED
    assert set(Rating.objects.values_list("form", flat=True)) == {form}


def test_what_asks_for_words_is_left_to_people(live_server, new_run, finish):
    (group,) = finish(
        new_run(
            group_size=4,
            people={"form": "critique", "per_group": 3, "deadline_s": 60, "simulated": True},
        )
    )
    with transaction.atomic():
        hand_on([group])
        open_items([group])
    Rater(live_server.url, AT_ONCE).turn()
    assert (
        not Rating.objects.exists() and Group.objects.get(pk=group.pk).state == Group.State.WAITING
    )
