"""One client uuid sent for two things at once: the first is saved, the other rejected.

Two connections, each with a transaction of its own: the first holds the uuid uncommitted until the
second waits for it.
"""

import json
import threading
import uuid
from collections.abc import Callable

import pytest
from django.db import connections, transaction
from django.test import Client

from apps.accounts.models import Token
from apps.feedback.claiming import claim
from apps.feedback.interventions import request_intervention
from apps.feedback.models import Intervention, Rating, Slot
from apps.feedback.ratings.items import submit
from apps.feedback.ratings.stars import Stars, give
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from tests.feedback.asking import answer_to, ask
from tests.locks import somebody_waits

KEY = uuid.UUID("6f1c2b1e-0000-4000-8000-000000000001")
STARS = {"stars": 4}
two_connections = pytest.mark.django_db(transaction=True)


@pytest.fixture
def meanwhile(eventually) -> Callable:
    """Return `meanwhile(first, second)`, which returns the result of `second`, started before
    `first` is committed.
    """

    def run(first: Callable, second: Callable) -> object:
        answers = []

        def other() -> None:
            answers.append(second())
            connections.close_all()

        thread = threading.Thread(target=other)
        with transaction.atomic():
            first()
            thread.start()
            eventually(somebody_waits)
        thread.join(60)
        [answer] = answers
        return answer

    return run


@pytest.fixture
def items(new_run, finish, bob):
    """Let bob claim two items of two groups."""
    run = new_run(people={"per_group": 2, "deadline_s": 600, "open_claims": 4})
    ask(run, finish, groups=2)
    held = claim(bob, run.pk, 4)
    return held[0], next(item for item in held if item.group_id != held[0].group_id)


def said_about(item, client_uuid=KEY, **changes) -> dict:
    return {
        "fence": item.fence,
        "version": item.version,
        "client_uuid": str(client_uuid),
        "form": "stars",
        "answer": STARS,
        **changes,
    }


def rate_first(bob, item) -> None:
    submit(bob, item.slot_id, answer_to(item, STARS, client_uuid=KEY))


def post_json(person, path: str, body: dict):
    client = Client()
    client.force_login(person)
    return client.post(path, json.dumps(body), content_type="application/json")


def post_api(person, path: str, body: dict):
    secret = Token.issue(person, "test", list(Token.Scope.values))[1]
    return Client().post(
        f"/api/v1/{path}",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )


@two_connections
def test_second_of_two_ratings_with_one_uuid_is_rejected_on_the_rating_page(items, meanwhile, bob):
    first, second = items
    path = f"/rate/slots/{second.slot_id}/"
    answer = meanwhile(
        lambda: rate_first(bob, first), lambda: post_json(bob, path, said_about(second))
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "used_uuid")
    assert "client_uuid" in answer.json()["detail"]
    assert Rating.objects.get().item_id == Slot.objects.get(pk=first.slot_id).item_id
    assert Reward.objects.filter(source="human").count() == 1
    assert Slot.objects.get(pk=second.slot_id).state == Slot.State.HELD, "it can be sent again"
    assert post_json(bob, path, said_about(second, uuid.uuid4())).status_code == 201


@two_connections
def test_second_of_two_ratings_with_one_uuid_is_a_conflict_over_rest(items, meanwhile, bob):
    first, second = items
    path = f"rating-slots/{second.slot_id}/"
    answer = meanwhile(
        lambda: rate_first(bob, first), lambda: post_api(bob, path, said_about(second))
    )
    assert answer.status_code == 409 and "client_uuid" in answer.json()["detail"]
    assert Rating.objects.count() == 1


@two_connections
def test_undo_with_a_used_uuid_is_rejected_and_the_rating_stays(items, meanwhile, bob):
    first, second = items
    done = answer_to(second, STARS)
    submit(bob, second.slot_id, done)
    names = {"client_uuid": str(done.client_uuid), "new_uuid": str(KEY)}
    answer = meanwhile(lambda: rate_first(bob, first), lambda: post_json(bob, "/rate/undo/", names))
    assert (answer.status_code, answer.json()["code"]) == (409, "used_uuid")
    assert "new_uuid" in answer.json()["detail"]
    assert Rating.objects.get(client_uuid=done.client_uuid).is_current


@pytest.fixture
def replies(new_run, finish) -> list[Rollout]:
    """Create three replies that wait for stars; the first is in another group than the others."""
    run = new_run(people={"per_group": 2, "deadline_s": 600})
    [one, other] = finish(run, groups=2)
    for group in (one, other):
        group.move(Group.State.WAITING)
    return [one.rollouts.first(), *other.rollouts.order_by("pk")]


@two_connections
def test_only_ratings_with_the_used_uuid_are_rejected_in_a_bulk_request(replies, meanwhile, bob):
    elsewhere, here, beside = replies
    ratings = [
        {"rollout": here.pk, "stars": 2, "client_uuid": str(KEY)},
        {"rollout": beside.pk, "stars": 3, "client_uuid": str(uuid.uuid4())},
    ]
    answer = meanwhile(
        lambda: give(bob, Stars(elsewhere.pk, 5, KEY)),
        lambda: post_api(bob, "ratings/", {"ratings": ratings}),
    )
    refused, taken = answer.json()["results"]
    assert (refused["status"], taken["status"]) == (409, 201)
    assert "client_uuid" in refused["detail"]
    stars = {rating.rollout_id: rating.stars for rating in Rating.objects.all()}
    assert stars == {elsewhere.pk: 5, beside.pk: 3}


@two_connections
def test_second_of_two_interventions_with_one_uuid_is_rejected(new_run, meanwhile, alice):
    Group.open(new_run(), "explorer", 60, 1, 0)
    first, second, *_ = Rollout.objects.order_by("pk")
    answer = meanwhile(
        lambda: request_intervention(alice, first.pk, "stop", "", KEY),
        lambda: post_json(alice, f"/live/{second.pk}/stop/", {"client_uuid": str(KEY)}),
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "used_uuid")
    assert Intervention.objects.get().rollout == first


@pytest.mark.django_db
def test_stars_with_a_used_uuid_are_rejected_with_a_message(replies, client, bob):
    elsewhere, here, _ = replies
    give(bob, Stars(elsewhere.pk, 5, KEY))
    client.force_login(bob)
    answer = client.post(f"/rate/{here.pk}/", {"stars": 2, "client_uuid": KEY})
    assert answer.status_code == 409 and "already used" in answer.content.decode()
    assert Rating.objects.get().rollout == elsewhere


@pytest.mark.django_db
def test_stars_with_the_uuid_of_a_rewrite_are_rejected(items, client, bob):
    item, _ = items
    rollout = item.shown[0]
    rewrite = {"fence": item.fence, "rollout": rollout, "client_uuid": str(KEY), "text": "better"}
    kept = post_json(bob, f"/rate/slots/{item.slot_id}/rewrite/", rewrite)
    assert kept.status_code == 201
    client.force_login(bob)
    answer = client.post(f"/rate/{rollout}/", {"stars": 2, "client_uuid": KEY})
    assert answer.status_code == 409 and "already used" in answer.content.decode()
    assert Rating.objects.count() == 1
