"""Items over REST: claimed, rated once, extended, released and skipped; refused with a message."""

import pytest

from apps.feedback.models import Rating, Skip, Slot
from tests.feedback.asking import ask

pytestmark = pytest.mark.django_db

UUID = "6f1c2b1e-0000-4000-8000-000000000001"


@pytest.fixture
def asking(new_run, finish):
    run = new_run(people={"per_group": 2, "deadline_s": 600})
    ask(run, finish)
    return run


@pytest.fixture
def item(program, bob, asking) -> dict:
    return program(bob).post("rating-queue/claim/", {}).json()["items"][0]


def decision(item: dict, **changes: object) -> dict:
    return {
        "client_uuid": UUID,
        "fence": item["fence"],
        "version": item["version"],
        "form": "stars",
        "answer": {"stars": 4},
        **changes,
    }


def test_claimed_item_is_held_for_the_rater(item, bob):
    assert Slot.objects.get(pk=item["slot"]).rater == bob
    assert item["form"] == "stars" and item["replies"][0]["text"] in ("one", "two")


def test_claim_is_empty_for_a_run_without_people(program, bob, run):
    assert program(bob).post("rating-queue/claim/", {"run": run.pk}).json() == {"items": []}


def test_repeated_decision_is_stored_once(program, bob, item):
    first, second = (
        program(bob).post(f"rating-slots/{item['slot']}/", decision(item)) for _ in range(2)
    )
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json() and Rating.objects.count() == 1


def test_rating_outside_the_scale_is_refused_by_field(program, bob, item):
    answer = program(bob).post(f"rating-slots/{item['slot']}/", decision(item, answer={"stars": 9}))
    assert answer.status_code == 422 and "stars" in answer.json()["errors"]


def test_an_older_fence_is_a_conflict(program, bob, item):
    answer = program(bob).post(f"rating-slots/{item['slot']}/", decision(item, fence=0))
    assert answer.status_code == 409 and answer["Content-Type"] == "application/problem+json"


def test_slot_is_404_for_a_stranger(program, carol, item):
    assert program(carol).post(f"rating-slots/{item['slot']}/", decision(item)).status_code == 404


def test_held_slot_can_be_extended_skipped_and_released(program, bob, item):
    caller = program(bob)
    path = f"rating-slots/{item['slot']}/"
    assert caller.post(path + "keep/", {"fence": item["fence"]}).json()["lease_s"] > 100
    assert (
        caller.post(path + "skip/", {"fence": item["fence"], "reason": "unclear"}).status_code
        == 204
    )
    assert Skip.objects.get().reason == "unclear"
    assert caller.post(path + "keep/", {"fence": item["fence"]}).status_code == 409
    (other,) = caller.post("rating-queue/claim/", {}).json()["items"]
    assert (
        caller.post(f"rating-slots/{other['slot']}/release/", {"fence": other["fence"]}).status_code
        == 204
    )
    assert Slot.objects.get(pk=other["slot"]).state == Slot.State.OPEN
