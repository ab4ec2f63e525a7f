"""What a rating page holds ahead: the next item is there at once, and some are left for others."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.urls import reverse

from apps.accounts.models import User
from apps.feedback.claiming import claim
from apps.feedback.claiming_ahead import PRESENT_S, limit_count
from apps.feedback.models import Rating
from apps.feedback.ratings.items import submit
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

pytestmark = pytest.mark.django_db
TEXTS = ("one", "two", "three", "four")
STARS = {"stars": 4}


@pytest.fixture
def waiting(new_run, finish):
    """`waiting(3)`: a run with one group, all of whose replies wait for people."""

    def make(size: int, **people: object) -> Run:
        asked = {"per_group": size, "deadline_s": 600, **people}
        run = new_run(people=asked, group_size=size)
        ask(run, finish, TEXTS[:size])
        return run

    return make


@pytest.fixture
def page_of(client):
    """`page_of(bob)`: ask as this person's empty page does; return the number of items."""

    def fetch(user: User) -> int:
        client.force_login(user)
        answer = client.post(reverse("rate-next", query={"count": 3, "ready": 0}))
        return answer.content.count(b"data-item=")

    return fetch


def rate_one(user: User) -> None:
    [held] = claim(user)
    submit(user, held.slot_id, answer_to(held, STARS))


@pytest.mark.parametrize("size", [3, 4])
def test_one_page_leaves_others_a_part_of_a_small_group(waiting, page_of, alice, bob, size):
    waiting(size)
    assert page_of(alice) == 2
    assert page_of(bob) == 1


def test_while_another_person_rates_two_items_go_to_two_people(waiting, page_of, alice, bob):
    waiting(3)
    rate_one(alice)
    assert page_of(bob) == page_of(alice) == 1


def test_a_person_who_rates_alone_has_the_last_item_ready(waiting, page_of, bob):
    waiting(2)
    assert page_of(bob) == 2


def test_an_empty_page_gets_the_last_item(waiting, page_of, alice, bob):
    waiting(2)
    rate_one(alice)
    assert page_of(bob) == 1


def test_while_many_wait_a_page_holds_as_many_as_it_asks_for(new_run, finish, page_of, alice, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600}, groups_per_step=4)
    ask(run, finish, groups=4)
    rate_one(alice)
    assert page_of(bob) == 3


def test_an_item_for_two_people_is_left_to_the_second_by_itself(waiting, page_of, alice, bob):
    waiting(3, overlap=2)
    assert page_of(alice) == 3
    assert page_of(bob) >= 1


def test_with_one_ready_a_page_gets_no_more_of_the_last_two(waiting, alice, bob):
    run = waiting(4)
    rate_one(alice)
    claim(bob)
    assert limit_count(bob, run.pk, count=1, ready=2) == 0
    assert limit_count(bob, run.pk, count=2, ready=1) == 1


def test_somebody_who_stopped_rating_is_no_company(waiting, page_of, alice, bob):
    waiting(3)
    rate_one(alice)
    Rating.objects.update(at=Now() - timedelta(seconds=PRESENT_S + 1))
    assert page_of(bob) == 2


def test_the_simulated_rater_is_no_company(waiting, page_of, alice, bob):
    waiting(3)
    User.objects.filter(pk=alice.pk).update(is_simulated=True)
    rate_one(alice)
    assert page_of(bob) == 2


def test_a_client_that_says_nothing_of_what_it_holds_gets_what_it_asks_for(waiting, client, bob):
    waiting(3)
    client.force_login(bob)
    answer = client.post(reverse("rate-next", query={"count": 3}))
    assert answer.content.count(b"data-item=") == 3
