"""Mistakes of a rating page and misuse of it: each has a clear response, nothing is half done."""

import json
import threading
import uuid
from collections.abc import Callable

import pytest
from django.db import connections
from django.test import Client

from apps.feedback.claiming import claim
from apps.feedback.models import Intervention, Item, Rating, Slot
from apps.rewards.models import Reward
from tests.feedback.asking import ask

STARS = {"stars": 4}


@pytest.fixture
def held(new_run, finish, bob) -> Callable:
    """Return `held(form)`, which returns an item of that form claimed by bob."""

    def make(form: str = "stars", **people: object):
        run = new_run(people={"per_group": 2, "deadline_s": 600, "form": form, **people})
        ask(run, finish, groups=2)
        [item] = claim(bob, run.pk)
        return item

    return make


@pytest.fixture
def send(client, bob) -> Callable:
    """Return `send(held, answer, **changes)`, which posts as bob's browser does; None removes a
    field.
    """
    client.force_login(bob)

    def post(held, answer: object, to: str = "", **changes: object):
        said = {
            "fence": held.fence,
            "version": held.version,
            "client_uuid": str(uuid.uuid4()),
            "form": held.form,
            "answer": answer,
            "critique": "",
            "seconds": 4.2,
            "first_key_ms": 900,
            "changes": 0,
            **changes,
        }
        said = {name: value for name, value in said.items() if value is not None}
        return client.post(
            f"/rate/slots/{held.slot_id}/{to}", json.dumps(said), content_type="application/json"
        )

    return post


@pytest.mark.parametrize(
    ("form", "answer", "field"),
    [
        ("stars", {"stars": 6}, "stars"),
        ("stars", {"stars": 0}, "stars"),
        ("stars", {"stars": "5"}, "stars"),
        ("stars", {"stars": True}, "stars"),
        ("stars", {"stars": 4.5}, "stars"),
        ("stars", {}, "stars"),
        ("stars", [4], "answer"),
        ("stars", {"stars": 4, "reward": 1}, "reward"),
        ("pairwise", {"preference": 4}, "preference"),
        ("pairwise", {"preference": -1, "both_bad": True}, "preference"),
        ("thumbs", {"up": 1}, "up"),
    ],
)
def test_value_outside_the_scale_is_reported_at_its_field_and_not_stored(
    held, send, form, answer, field
):
    answer = send(held(form), answer)
    assert answer.status_code == 422 and field in answer.json()["fields"], answer.content
    assert not Rating.objects.exists() and not Reward.objects.filter(source="human").exists()


def test_same_reply_as_best_and_worst_is_rejected(held, send):
    item = held("best_worst")
    [first, _] = item.shown
    answer = send(item, {"best": first, "worst": first})
    assert answer.status_code == 422 and set(answer.json()["fields"]) & {"best", "worst"}


def test_rollout_that_was_not_shown_is_rejected(held, send):
    item = held("best_worst")
    answer = send(item, {"best": 999_999, "worst": item.shown[0]})
    assert answer.status_code == 422 and "best" in answer.json()["fields"]


@pytest.mark.parametrize("field", ["fence", "version", "client_uuid", "form"])
def test_missing_hidden_field_is_reported(held, send, field):
    answer = send(held(), STARS, **{field: None})
    assert answer.status_code == 422 and field in answer.json()["fields"]


@pytest.mark.parametrize(
    ("changes", "status", "word"),
    [
        ({"fence": 99}, 409, "lease_lost"),
        ({"version": 99}, 409, "stale"),
        ({"form": "thumbs"}, 422, "form"),
        ({"fence": -1}, 422, "fence"),
        ({"fence": 2**64}, 422, "fence"),
        ({"fence": "1"}, 422, "fence"),
        ({"client_uuid": "mine"}, 422, "client_uuid"),
        ({"rater": 1}, 422, "rater"),
        ({"seconds": -1}, 422, "seconds"),
        ({"seconds": "long"}, 422, "seconds"),
        ({"changes": -5}, 422, "changes"),
    ],
)
def test_changed_hidden_field_is_rejected_with_the_reason(held, send, changes, status, word):
    answer = send(held(), STARS, **changes)
    assert answer.status_code == status, answer.content
    assert word in (answer.json()["fields"] if status == 422 else answer.json()["code"])
    assert not Rating.objects.exists()


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'{"seconds": NaN}', b"\xff\xfe", b"[" * 100_000]
)
def test_body_that_is_not_an_object_is_rejected(held, client, bob, body):
    item = held()
    client.force_login(bob)
    answer = client.post(f"/rate/slots/{item.slot_id}/", body, content_type="application/json")
    assert answer.status_code == 422 and answer.json()["fields"]


def test_item_changed_meanwhile_is_stale_and_the_response_says_what_to_do(held, send):
    item = held()
    Item.objects.filter(pk=item.item_id).update(version=2)
    answer = send(item, STARS)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale") and answer.json()["next"]


def test_answer_sent_twice_is_one_rating(held, send):
    item = held()
    same = str(uuid.uuid4())
    first = send(item, STARS, client_uuid=same)
    second = send(item, STARS, client_uuid=same)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["rating"] == second.json()["rating"] and Rating.objects.count() == 1


def test_different_answer_from_a_second_tab_is_rejected(held, send):
    item = held()
    send(item, STARS)
    answer = send(item, {"stars": 1})
    assert (answer.status_code, answer.json()["code"]) == (409, "decided")
    assert Rating.objects.get().answer == STARS


@pytest.mark.django_db(transaction=True)
def test_same_answer_from_two_tabs_at_once_is_one_rating(held, bob):
    item = held()
    same = str(uuid.uuid4())
    said = {
        "fence": item.fence,
        "version": item.version,
        "client_uuid": same,
        "form": "stars",
        "answer": STARS,
    }
    answers = []
    start = threading.Barrier(2)

    def tab() -> None:
        client = Client()
        client.force_login(bob)
        start.wait(30)
        answers.append(
            client.post(f"/rate/slots/{item.slot_id}/", said, content_type="application/json")
        )
        connections.close_all()

    tabs = [threading.Thread(target=tab) for _ in range(2)]
    for one in tabs:
        one.start()
    for one in tabs:
        one.join(60)
    assert sorted(answer.status_code for answer in answers) == [200, 201], [
        answer.content for answer in answers
    ]
    assert len({answer.json()["rating"] for answer in answers}) == 1 and Rating.objects.count() == 1


def test_signed_out_rater_gets_401_and_can_send_again_after_signing_in(held, send, client, bob):
    item = held()
    client.logout()
    answer = send(item, STARS)
    assert answer.status_code == 401 and "log in" in answer.json()["detail"]
    client.force_login(bob)
    assert send(item, STARS).status_code == 201, "accepted after signing in again"


def test_rater_who_lost_the_lease_is_told_that_another_rater_has_the_item(held, send, alice):
    item = held(open_claims=10)
    Slot.objects.filter(pk=item.slot_id).update(state="open", rater=None)
    assert item.slot_id in [other.slot_id for other in claim(alice, item.run_id, 10)]
    answer = send(item, STARS)
    assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost")
    assert (
        "Another rater" in answer.json()["detail"]
        and answer.json()["next"]
        and not Rating.objects.exists()
    )


def test_answer_after_the_lease_is_accepted_if_nobody_else_claimed_the_item(held, send):
    item = held()
    Slot.objects.filter(pk=item.slot_id).update(lease_until="2020-01-01T00:00:00Z")
    assert send(item, STARS).status_code == 201


def test_too_long_critique_is_rejected_with_the_maximum_length(held, send):
    answer = send(held(), STARS, critique="x" * 2**20)
    assert answer.status_code == 422 and "20,000" in answer.json()["fields"]["critique"]


def test_oversized_body_is_rejected(held, send):
    answer = send(held(), STARS, critique="x" * (3 * 2**20))
    assert answer.status_code in (413, 422)


def test_nul_and_direction_controls_in_a_critique_are_stored_safely(held, send):
    answer = send(held(), STARS, critique="a\x00b \u202egnorw\u202c \ud800 \u05d0")
    assert answer.status_code == 201, answer.content
    kept = Rating.objects.get().critique
    assert "\x00" not in kept and "\u05d0" in kept and "a\u2400b" in kept


def test_rater_cannot_rate_a_reply_that_they_edited(held, send, bob):
    item = held()
    Intervention.objects.create(
        rollout_id=item.shown[0],
        by=bob,
        kind="edit",
        text="mine",
        state="done",
        client_uuid=uuid.uuid4(),
    )
    answer = send(item, STARS)
    assert (answer.status_code, answer.json()["code"]) == (
        409,
        "own_output",
    ) and not Rating.objects.exists()


def test_stranger_gets_404_for_an_item(held, carol):
    item = held()
    client = Client()
    client.force_login(carol)
    said = {
        "fence": item.fence,
        "version": 1,
        "client_uuid": str(uuid.uuid4()),
        "form": "stars",
        "answer": STARS,
    }
    answer = client.post(f"/rate/slots/{item.slot_id}/", said, content_type="application/json")
    assert answer.status_code == 404 and not Rating.objects.exists()


def test_post_without_csrf_token_is_rejected(held, bob):
    item = held()
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    answer = client.post(
        f"/rate/slots/{item.slot_id}/", {"fence": item.fence}, content_type="application/json"
    )
    assert answer.status_code == 403 and not Rating.objects.exists()
