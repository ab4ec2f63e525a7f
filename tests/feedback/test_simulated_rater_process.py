"""The simulated rater's program against a real web server: it posts as any client does, and
recovers from failures.
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
    """Create a group that waits for people in a run with the simulated rater switched on."""
    run = new_run(group_size=4, people={"per_group": 3, "deadline_s": 60, "simulated": True})
    (group,) = finish(run)
    with transaction.atomic():
        hand_on([group])
        open_items([group])
    return group


def test_ratings_arrive_through_the_public_endpoint_and_close_the_group(live_server, group):
    assert Rater(live_server.url, AT_ONCE).turn() == LOOK_S
    group.refresh_from_db()
    assert group.state == Group.State.JUDGED
    assert set(Rating.objects.values_list("rater__username", "rater__is_simulated")) == {
        ("simulated-rater", True)
    }
    assert Reward.objects.filter(source=Reward.Source.HUMAN, by__is_simulated=True).count() == 3


def test_simulated_rater_waits_for_an_unavailable_web_process(live_server, group):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # reserved by this test, and nothing listens there
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


def test_terminated_database_connection_is_opened_again(live_server, group):
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
def test_simulated_rater_answers_every_form_without_text(live_server, new_run, finish, form):
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


def test_forms_with_text_are_left_to_people(live_server, new_run, finish):
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
