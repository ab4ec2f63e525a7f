"""Pages that are not there or not allowed: within the frame, with what to do."""

import pytest
from django.urls import reverse

NAVIGATION = '<nav class="rail'


@pytest.mark.parametrize("address", ["/nothing/", "/runs/lab/nothing/", "/rollouts/999999/"])
def test_a_page_that_is_not_there_keeps_the_navigation(client, seeded, address):
    client.force_login(seeded.bob)
    answer = client.get(address)
    html = answer.content.decode()
    assert answer.status_code == 404 and NAVIGATION in html
    assert reverse("find") in html and reverse("projects") in html


def test_a_page_that_is_not_allowed_keeps_the_navigation_and_says_why(client, seeded):
    client.force_login(seeded.bob)
    answer = client.get(reverse("run-gold", args=["lab", seeded.run.slug]))
    html = answer.content.decode()
    assert answer.status_code == 403 and NAVIGATION in html
    assert "Only owners and researchers" in html and reverse("projects") in html


def test_who_is_not_signed_in_is_led_to_the_login(client, seeded):
    answer = client.get("/nothing/")
    html = answer.content.decode()
    assert answer.status_code == 404 and NAVIGATION not in html
    assert reverse("account_login") in html


def test_a_page_that_is_not_there_answers_the_same_as_one_of_strangers(client, seeded):
    client.force_login(seeded.carol)
    there = client.get(reverse("run", args=["lab", seeded.run.slug]))
    nowhere = client.get(reverse("run", args=["lab", "nothing"]))
    assert there.status_code == nowhere.status_code == 404
    assert len(there.content) == len(nowhere.content)
