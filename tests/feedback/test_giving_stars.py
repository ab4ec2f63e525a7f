"""Stars given wherever a reply is shown: what they create, and who may give them."""

import uuid

import pytest
from django.urls import reverse

from apps.feedback.models import Rating
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout


@pytest.fixture
def people_run(new_run):
    return new_run(people={"per_group": 2, "deadline_s": 600})


@pytest.fixture
def waiting(people_run, finish) -> Group:
    """Create a group of two replies that waits for people."""
    (group,) = finish(people_run, ["12345", "54321"])
    group.move(Group.State.WAITING)
    return group


def first_of(group: Group) -> Rollout:
    return group.rollouts.order_by("sample_index").first()


def send(client, rollout, stars=4, **extra):
    return client.post(
        reverse("rate-rollout", args=[rollout.pk]),
        {"stars": stars, "client_uuid": uuid.uuid4(), **extra},
        headers={"X-Requested-With": "fetch"},
    )


def test_stars_become_a_rating_and_a_reward(client, bob, waiting):
    client.force_login(bob)
    answer = send(client, first_of(waiting), 5)
    assert answer.status_code == 201 and "bob 1.00" in answer.content.decode()
    assert Reward.objects.get(rollout=first_of(waiting), source=Reward.Source.HUMAN).value == 1.0


def test_same_rating_sent_twice_is_stored_once(client, bob, waiting):
    client.force_login(bob)
    same = uuid.uuid4()
    assert [send(client, first_of(waiting), client_uuid=same).status_code for _ in range(2)] == [
        201,
        201,
    ]
    assert Rating.objects.count() == 1


def test_group_is_closed_when_it_has_enough_ratings(client, bob, waiting):
    client.force_login(bob)
    for rollout in waiting.rollouts.all():
        send(client, rollout)
    waiting.refresh_from_db()
    assert waiting.state == Group.State.JUDGED


@pytest.mark.parametrize("stars", ["0", "6", "2.5", "five", ""])
def test_stars_out_of_range_are_rejected_with_a_message(client, bob, waiting, stars):
    client.force_login(bob)
    answer = send(client, first_of(waiting), stars)
    assert answer.status_code == 422 and b"1 to 5" in answer.content and not Rating.objects.exists()


def test_stranger_gets_404_for_a_rollout(client, carol, waiting):
    client.force_login(carol)
    assert send(client, first_of(waiting)).status_code == 404


def test_a_viewer_may_look_but_not_rate(client, carol, project, waiting):
    project.memberships.create(user=carol, role="viewer")
    client.force_login(carol)
    answer = send(client, first_of(waiting))
    assert answer.status_code == 409 and b"You can view this reply but not rate" in answer.content


def test_a_reply_still_being_written_is_rated_later(client, bob, people_run):
    (group,) = Group.open(people_run, "explorer", 60, 1, people_run.published_version)
    client.force_login(bob)
    answer = send(client, first_of(group))
    assert answer.status_code == 409 and answer["X-Retry"] == "when-finished"


def test_late_rating_is_stored_and_marked(client, bob, waiting):
    waiting.drop("stale")
    client.force_login(bob)
    assert b"data-late" in send(client, first_of(waiting)).content
    assert Rating.objects.get().is_late


def test_form_without_javascript_redirects_back(client, bob, waiting):
    client.force_login(bob)
    rollout = first_of(waiting)
    answer = client.post(
        reverse("rate-rollout", args=[rollout.pk]), {"stars": 3, "from": "rollout"}
    )
    assert answer.status_code == 302 and answer["Location"] == f"/rollouts/{rollout.pk}/"
