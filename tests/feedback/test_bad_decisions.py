"""What a rating page may get wrong, or somebody may try through it: each has a clear answer, and
nothing is half done.
"""

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
    """`held(form)`: an item of that form in bob's hands."""

    def make(form: str = "stars", **people: object):
        run = new_run(people={"per_group": 2, "deadline_s": 600, "form": form, **people})
        ask(run, finish, groups=2)
        [item] = claim(bob, run.pk)
        return item

    return make


@pytest.fixture
def send(client, bob) -> Callable:
    """`send(held, answer, **changes)`: what bob's browser posts; a change to None leaves the field
    out.
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
def test_what_is_out_of_scale_is_told_at_its_field_and_not_taken(held, send, form, answer, field):
    answer = send(held(form), answer)
    assert answer.status_code == 422 and field in answer.json()["fields"], answer.content
    assert not Rating.objects.exists() and not Reward.objects.filter(source="human").exists()


def test_choosing_both_ends_as_one_reply_is_told(held, send):
    item = held("best_worst")
    [first, _] = item.shown
    answer = send(item, {"best": first, "worst": first})
    assert answer.status_code == 422 and set(answer.json()["fields"]) & {"best", "worst"}


def test_a_rollout_that_was_not_shown_is_refused(held, send):
    item = held("best_worst")
    answer = send(item, {"best": 999_999, "worst": item.shown[0]})
    assert answer.status_code == 422 and "best" in answer.json()["fields"]


@pytest.mark.parametrize("field", ["fence", "version", "client_uuid", "form"])
def test_a_hidden_field_that_is_gone_is_told(held, send, field):
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
def test_a_changed_hidden_field_is_refused_in_words(held, send, changes, status, word):
    answer = send(held(), STARS, **changes)
    assert answer.status_code == status, answer.content
    assert word in (answer.json()["fields"] if status == 422 else answer.json()["code"])
    assert not Rating.objects.exists()


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'{"seconds": NaN}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_body_that_is_no_object_is_told(held, client, bob, body):
    item = held()
    client.force_login(bob)
    answer = client.post(f"/rate/slots/{item.slot_id}/", body, content_type="application/json")
    assert answer.status_code == 422 and answer.json()["fields"]


def test_an_item_that_was_changed_meanwhile_is_stale_and_says_what_comes(held, send):
    item = held()
    Item.objects.filter(pk=item.item_id).update(version=2)
    answer = send(item, STARS)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale") and answer.json()["next"]


def test_the_same_words_sent_twice_are_one_rating(held, send):
    item = held()
    same = str(uuid.uuid4())
    first = send(item, STARS, client_uuid=same)
    second = send(item, STARS, client_uuid=same)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["rating"] == second.json()["rating"] and Rating.objects.count() == 1


def test_a_second_tab_with_other_words_is_told_that_the_first_stands(held, send):
    item = held()
    send(item, STARS)
    answer = send(item, {"stars": 1})
    assert (answer.status_code, answer.json()["code"]) == (409, "decided")
    assert Rating.objects.get().answer == STARS


@pytest.mark.django_db(transaction=True)
def test_two_tabs_that_send_the_same_at_once_make_one_rating(held, bob):
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


def test_who_is_signed_out_is_told_so_and_not_sent_elsewhere(held, send, client, bob):
    item = held()
    client.logout()
    answer = send(item, STARS)
    assert answer.status_code == 401 and "log in" in answer.json()["detail"]
    client.force_login(bob)
    assert send(item, STARS).status_code == 201, "the same words are taken once signed in again"


def test_who_lost_the_lease_is_told_who_has_it(held, send, alice):
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


def test_a_late_answer_is_taken_while_nobody_else_took_the_item(held, send):
    item = held()
    Slot.objects.filter(pk=item.slot_id).update(lease_until="2020-01-01T00:00:00Z")
    assert send(item, STARS).status_code == 201


def test_a_critique_of_a_megabyte_is_told_how_long_it_may_be(held, send):
    answer = send(held(), STARS, critique="x" * 2**20)
    assert answer.status_code == 422 and "20,000" in answer.json()["fields"]["critique"]


def test_a_body_beyond_every_bound_is_refused(held, send):
    answer = send(held(), STARS, critique="x" * (3 * 2**20))
    assert answer.status_code in (413, 422)


def test_nul_and_turned_words_are_kept_harmless(held, send):
    answer = send(held(), STARS, critique="a\x00b \u202egnorw\u202c \ud800 \u05d0")
    assert answer.status_code == 201, answer.content
    kept = Rating.objects.get().critique
    assert "\x00" not in kept and "\u05d0" in kept and "a\u2400b" in kept


def test_nobody_rates_what_they_typed_themselves(held, send, bob):
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


def test_a_strangers_post_finds_no_item(held, carol):
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


def test_a_post_without_the_pages_token_is_refused(held, bob):
    item = held()
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    answer = client.post(
        f"/rate/slots/{item.slot_id}/", {"fence": item.fence}, content_type="application/json"
    )
    assert answer.status_code == 403 and not Rating.objects.exists()
