"""The tour of a first visit: five pages of the demo's run, each leading to the next, and out of it at any."""

import pytest
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.dashboard.tour import STEPS


@pytest.fixture
def demo(seeded):
    """The seeded run, as the demo's; everybody is at the tour's beginning."""
    User.objects.update(tour_step=1)
    for person in (seeded.alice, seeded.bob, seeded.carol):
        person.refresh_from_db()
    Project.objects.filter(pk=seeded.run.project_id).update(slug="demo")
    seeded.run.refresh_from_db()
    seeded.run.project.refresh_from_db()
    return seeded


def test_it_leads_through_its_pages_and_ends(client, demo):
    client.force_login(demo.alice)
    address = STEPS[0].url(demo.run)
    for number, step in enumerate(STEPS, start=1):
        page = client.get(address).content.decode()
        assert step.title in page and f"{number} of {len(STEPS)}" in page
        address = client.post(reverse("tour"), {"to": (number + 1) % (len(STEPS) + 1)})["Location"]
    demo.alice.refresh_from_db()
    assert (demo.alice.tour_step, address) == (0, reverse("home"))


def test_it_can_be_skipped_at_once(client, demo):
    client.force_login(demo.bob)
    client.post(reverse("tour"), {"to": "0"})
    assert STEPS[0].title not in client.get(STEPS[0].url(demo.run)).content.decode()


def test_other_pages_say_only_where_it_goes_on(client, demo):
    client.force_login(demo.alice)
    page = client.get(reverse("tasksets")).content.decode()
    assert f'href="{STEPS[0].url(demo.run)}"' in page and STEPS[0].title not in page


def test_who_sees_no_demo_has_no_tour(client, demo):
    client.force_login(demo.carol)
    assert "Tour" not in client.get(reverse("live")).content.decode()
    assert "no demo run" in client.post(reverse("tour"), {"to": "2"}, follow=True).content.decode()


@pytest.mark.parametrize("asked", ["", "-1", "99", "x", "²"])
def test_a_step_that_is_none_ends_it(client, demo, asked):
    client.force_login(demo.alice)
    assert client.post(reverse("tour"), {"to": asked})["Location"] == reverse("home")


def test_it_costs_nothing_once_it_is_over(client, demo, django_assert_max_num_queries):
    client.force_login(demo.alice)
    client.post(reverse("tour"), {"to": "0"})
    with django_assert_max_num_queries(50) as seen:
        client.get(reverse("tasksets"))
    assert not [query for query in seen.captured_queries if "'tone%'" in query["sql"]]
