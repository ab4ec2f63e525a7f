"""How many items a rating page claims ahead: the next item is ready at once, and some are left for
others.
"""

import re
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.urls import reverse

from apps.accounts.models import User
from apps.feedback.claiming import claim
from apps.feedback.claiming_ahead import PRESENT_S
from apps.feedback.models import Rating, Slot
from apps.feedback.ratings.items import submit
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

pytestmark = pytest.mark.django_db
TEXTS = ("one", "two", "three", "four")
STARS = {"stars": 4}


@pytest.fixture
def waiting(new_run, finish):
    """Return `waiting(size)`, which creates a run of one group whose replies wait for people."""

    def make(size: int, **people: object) -> Run:
        asked = {"per_group": size, "deadline_s": 600, **people}
        run = new_run(people=asked, group_size=size)
        ask(run, finish, TEXTS[:size])
        return run

    return make


@pytest.fixture
def page_of(client):
    """Return `page_of(user)`, which requests items as this person's empty page does and returns
    their number.
    """

    def fetch(user: User) -> int:
        client.force_login(user)
        answer = client.post(reverse("rate-next", query={"count": 3, "ready": ""}))
        return answer.content.count(b"data-item=")

    return fetch


def rate_one(user: User) -> None:
    [held] = claim(user)
    submit(user, held.slot_id, answer_to(held, STARS))


@pytest.mark.parametrize("size", [3, 4])
def test_page_leaves_a_part_of_a_small_group_to_others(waiting, page_of, alice, bob, size):
    waiting(size)
    assert page_of(alice) == 2
    assert page_of(bob) == 1


def test_while_another_person_rates_two_items_go_to_two_people(waiting, page_of, alice, bob):
    waiting(3)
    rate_one(alice)
    assert page_of(bob) == page_of(alice) == 1


def test_person_who_rates_alone_gets_the_last_item_ahead(waiting, page_of, bob):
    waiting(2)
    assert page_of(bob) == 2


def test_an_empty_page_gets_the_last_item(waiting, page_of, alice, bob):
    waiting(2)
    rate_one(alice)
    assert page_of(bob) == 1


def test_page_gets_as_many_items_as_requested_while_many_wait(new_run, finish, page_of, alice, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600}, groups_per_step=4)
    ask(run, finish, groups=4)
    rate_one(alice)
    assert page_of(bob) == 3


def test_item_for_two_people_is_not_held_back_for_the_second(waiting, page_of, alice, bob):
    waiting(3, overlap=2)
    assert page_of(alice) == 3
    assert page_of(bob) >= 1


def test_page_with_one_ready_item_gets_no_more_of_the_last_two(waiting, client, alice, bob):
    waiting(4)
    rate_one(alice)
    [shown] = claim(bob)
    client.force_login(bob)
    ready = {"count": 2, "ready": shown.slot_id}
    answer = client.post(reverse("rate-next", query=ready))
    [ahead] = re.findall(rb'data-slot="(\d+)"', answer.content)
    ready = {"count": 1, "ready": f"{shown.slot_id},{int(ahead)}"}
    assert client.post(reverse("rate-next", query=ready)).status_code == 204


@pytest.fixture
def two_runs(waiting, new_run, finish):
    """Create a run with three urgent items, and one with sixteen that have more time."""
    urgent = waiting(3, deadline_s=300)
    large = new_run(people={"per_group": 2, "deadline_s": 3000}, groups_per_step=8)
    ask(large, finish, groups=8)
    return urgent, large


def held_of(user: User, run: Run) -> int:
    return Slot.objects.filter(rater=user, run=run, state="held").count()


def test_many_items_of_one_run_leave_the_few_of_another_to_others(two_runs, page_of, alice, bob):
    urgent, large = two_runs
    assert page_of(alice) == page_of(bob) == 3
    assert (held_of(alice, urgent), held_of(alice, large)) == (2, 1)
    assert (held_of(bob, urgent), held_of(bob, large)) == (1, 2)


def test_items_claimed_ahead_in_one_run_do_not_count_for_another(
    two_runs, client, page_of, alice, bob
):
    urgent, large = two_runs
    client.force_login(bob)
    [shown] = claim(bob, large.pk)
    client.post(reverse("rate-next", query={"count": 2, "ready": shown.slot_id}))
    assert (held_of(bob, urgent), held_of(bob, large)) == (1, 2)


def test_person_who_stopped_rating_is_not_reserved_items(waiting, page_of, alice, bob):
    waiting(3)
    rate_one(alice)
    Rating.objects.update(at=Now() - timedelta(seconds=PRESENT_S + 1))
    assert page_of(bob) == 2


def test_simulated_rater_is_not_reserved_items(waiting, page_of, alice, bob):
    waiting(3)
    User.objects.filter(pk=alice.pk).update(is_simulated=True)
    rate_one(alice)
    assert page_of(bob) == 2


def test_client_that_does_not_report_its_items_gets_as_many_as_requested(waiting, client, bob):
    waiting(3)
    client.force_login(bob)
    answer = client.post(reverse("rate-next", query={"count": 3}))
    assert answer.content.count(b"data-item=") == 3
