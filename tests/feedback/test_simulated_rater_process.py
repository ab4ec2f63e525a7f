"""The simulated rater's program against a real web server: it posts as anybody does, and outlives what dies."""

import socket
import threading

import pytest
from django.db import connection, transaction

from apps.accounts.models import Token
from apps.feedback.models import Rating
from apps.feedback.opening import open_items
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
        hand_on(group)
        open_items([group])
    return group


def test_its_ratings_arrive_through_the_public_endpoint_and_settle_the_group(live_server, group):
    assert Rater(live_server.url, AT_ONCE).turn() == LOOK_S
    group.refresh_from_db()
    assert group.state == Group.State.JUDGED
    assert set(Rating.objects.values_list("rater__username", "rater__is_simulated")) == {("simulated-rater", True)}
    assert Reward.objects.filter(source=Reward.Source.HUMAN, by__is_simulated=True).count() == 3


def test_a_web_process_that_is_away_is_waited_for(live_server, group):
    rater = Rater(f"http://127.0.0.1:{free_port()}", AT_ONCE)
    assert rater.turn() == OUTAGE_S
    rater.endpoint = Rater(live_server.url, AT_ONCE).endpoint
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


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]
