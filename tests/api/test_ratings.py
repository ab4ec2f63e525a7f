"""Posting ratings, and the queue of each user."""

import json
import uuid

import pytest
from django.db import transaction

from apps.feedback.claiming import claim
from apps.feedback.item_opening import open_items
from apps.feedback.models import Rating
from apps.rewards.models import Reward
from apps.rewards.scoring import hand_on
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(new_run, finish) -> Group:
    """Create a group of two rollouts that waits for raters."""
    [group] = finish(new_run(people={"per_group": 2, "deadline_s": 60}))
    with transaction.atomic():
        hand_on([group])
        open_items([group])
    return Group.objects.get(pk=group.pk)


def rating(rollout: Rollout | int, stars: int = 4, client: str | None = None) -> dict:
    return {
        "rollout": getattr(rollout, "pk", rollout),
        "stars": stars,
        "client_uuid": client or str(uuid.uuid4()),
    }


def test_ratings_become_rewards_and_complete_their_group(program, bob, waiting):
    first, second = waiting.rollouts.order_by("sample_index")
    answer = program(bob).post("ratings/", {"ratings": [rating(first, 5), rating(second, 1)]})
    assert answer.status_code == 201
    assert [(r["status"], r["is_late"]) for r in answer.json()["results"]] == [(201, False)] * 2
    assert list(Reward.objects.filter(by=bob).order_by("pk").values_list("rollout", "value")) == [
        (first.pk, 1.0),
        (second.pk, 0.0),
    ]
    waiting.refresh_from_db()
    assert waiting.state == Group.State.JUDGED


def test_repeated_rating_gets_the_same_response(program, bob, waiting):
    caller = program(bob)
    body = {"ratings": [rating(waiting.rollouts.first())]}
    first = caller.post("ratings/", body)
    second = caller.post("ratings/", body)
    assert (first.status_code, first.json()) == (
        second.status_code,
        second.json(),
    ) and first.status_code == 201
    assert Rating.objects.count() == 1


def test_same_client_uuid_with_different_stars_is_a_conflict(program, bob, waiting):
    caller = program(bob)
    rollout = waiting.rollouts.first()
    client = str(uuid.uuid4())
    caller.post("ratings/", {"ratings": [rating(rollout, 5, client)]})
    answer = caller.post("ratings/", {"ratings": [rating(rollout, 2, client)]})
    assert (answer.status_code, answer.json()["results"][0]["status"]) == (207, 409)
    assert Rating.objects.get().stars == 5


def test_results_are_in_the_order_of_the_ratings(program, bob, waiting, run):
    Group.open(run, "elsewhere", 60, 1, version=0)
    sampling = Rollout.objects.filter(run=run).first()
    good = waiting.rollouts.first()
    asked = [rating(2**40), rating(good), rating(sampling), rating(good, 2)]
    results = program(bob).post("ratings/", {"ratings": asked}).json()["results"]
    assert [result["status"] for result in results] == [404, 201, 409, 201]


def test_stranger_gets_404_for_existing_and_missing_rollouts(program, carol, waiting):
    results = (
        program(carol)
        .post("ratings/", {"ratings": [rating(waiting.rollouts.first()), rating(2**40)]})
        .json()["results"]
    )
    assert [result["status"] for result in results] == [404, 404]
    assert results[0] == results[1]


def test_late_rating_is_stored_and_marked_as_late(program, bob, waiting):
    waiting.drop("for the test")
    [result] = (
        program(bob)
        .post("ratings/", {"ratings": [rating(waiting.rollouts.first())]})
        .json()["results"]
    )
    assert (result["status"], result["is_late"]) == (201, True)


def test_500_ratings_are_accepted_in_one_request(program, bob, waiting):
    rollout = waiting.rollouts.first()
    answer = program(bob).post(
        "ratings/", {"ratings": [rating(rollout, 1 + n % 5) for n in range(500)]}
    )
    assert answer.status_code == 201 and Rating.objects.count() == 500
    assert Reward.objects.filter(by=bob, is_current=True).count() == 1


def test_ratings_are_accepted_without_redis(
    program, bob, waiting, dead_redis, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True) as bells_rung:
        answer = program(bob).post(
            "ratings/", {"ratings": [rating(rollout) for rollout in waiting.rollouts.all()]}
        )
    assert answer.status_code == 201 and bells_rung
    assert Rating.objects.count() == 2


def test_queue_lists_waiting_rollouts_without_the_reference_answer(program, bob, alice, waiting):
    items = program(bob).get("rating-queue/").json()["items"]
    assert [item["id"] for item in items] == list(
        waiting.rollouts.order_by("pk").values_list("pk", flat=True)
    )
    assert (
        items[0]["prompt"] == waiting.task.prompt
        and items[0]["text"] == "12345"
        and items[0]["deadline_at"]
    )
    assert "answer" not in json.dumps(items)
    program(bob).post("ratings/", {"ratings": [rating(items[0]["id"])]})
    assert [item["id"] for item in program(bob).get("rating-queue/").json()["items"]] == [
        items[1]["id"]
    ]
    assert len(program(alice).get("rating-queue/", limit=1).json()["items"]) == 1


def test_queue_is_empty_for_a_stranger(program, carol, waiting):
    assert program(carol).get("rating-queue/").json() == {"items": []}


@pytest.mark.parametrize(
    ("people", "status", "words"),
    [({}, 409, "enough raters"), ({"open_stars": False}, 403, "Claim it")],
)
def test_rating_without_a_claim_is_refused_with_a_message(
    program, bob, alice, waiting, people, status, words
):
    run = waiting.run
    Run.objects.update(config={**run.config, "people": {**run.config["people"], **people}})
    (held,) = claim(alice, run.pk, 1)
    rollout = held.shown[0]
    answer = program(bob).post("ratings/", {"ratings": [rating(rollout)]})
    [result] = answer.json()["results"]
    assert (answer.status_code, result["status"], result["rating"]) == (207, status, None)
    assert words in result["detail"]
