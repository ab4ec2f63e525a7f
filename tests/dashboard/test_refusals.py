"""Error pages for addresses that don't exist or aren't allowed keep the navigation and say what to
do.
"""

import pytest
from django.urls import reverse

NAVIGATION = '<nav class="rail'


@pytest.mark.parametrize("address", ["/nothing/", "/runs/lab/nothing/", "/rollouts/999999/"])
def test_not_found_page_keeps_the_navigation(client, seeded, address):
    client.force_login(seeded.bob)
    answer = client.get(address)
    html = answer.content.decode()
    assert answer.status_code == 404 and NAVIGATION in html
    assert reverse("find") in html and reverse("projects") in html


def test_forbidden_page_keeps_the_navigation_and_says_why(client, seeded):
    client.force_login(seeded.bob)
    answer = client.get(reverse("run-gold", args=["lab", seeded.run.slug]))
    html = answer.content.decode()
    assert answer.status_code == 403 and NAVIGATION in html
    assert "Only owners and researchers" in html and reverse("projects") in html


def test_not_found_page_links_to_the_login_for_visitors(client, seeded):
    answer = client.get("/nothing/")
    html = answer.content.decode()
    assert answer.status_code == 404 and NAVIGATION not in html
    assert reverse("account_login") in html


def test_page_of_a_foreign_project_looks_the_same_as_a_missing_page(client, seeded):
    client.force_login(seeded.carol)
    there = client.get(reverse("run", args=["lab", seeded.run.slug]))
    nowhere = client.get(reverse("run", args=["lab", "nothing"]))
    assert there.status_code == nowhere.status_code == 404
    assert len(there.content) == len(nowhere.content)
