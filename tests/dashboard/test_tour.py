"""The tour for a first visit: five pages of the demo's run, each with a link to the next and a way
out.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, Project, User
from apps.dashboard.tour import REAL_MODEL, STEPS, demo_run
from apps.runs.models import Run
from apps.runs.run_repeats import run_again
from tests.conftest import PASSWORD


@pytest.fixture
def demo(seeded):
    """Return the seeded run as the demo's run."""
    Project.objects.filter(pk=seeded.run.project_id).update(slug="demo")
    seeded.run.refresh_from_db()
    seeded.run.project.refresh_from_db()
    return seeded


def test_tour_goes_through_its_pages_and_ends(client, demo):
    client.force_login(demo.alice)
    address = STEPS[0].url(demo.run)
    for number, step in enumerate(STEPS, start=1):
        page = client.get(address).content.decode()
        assert step.title in page and f"{number} of {len(STEPS)}" in page
        address = client.post(reverse("tour"), {"to": (number + 1) % (len(STEPS) + 1)})["Location"]
    demo.alice.refresh_from_db()
    assert (demo.alice.tour_step, address) == (0, reverse("home"))


@pytest.mark.parametrize(("slug", "offers"), [("tone", True), ("tone-2", True), ("support", False)])
def test_tour_of_a_tiny_model_ends_with_the_demo_of_a_real_one(client, demo, slug, offers):
    Run.objects.filter(pk=demo.run.pk).update(slug=slug)
    demo.run.refresh_from_db()
    User.objects.filter(pk=demo.alice.pk).update(tour_step=len(STEPS))
    client.force_login(demo.alice)
    page = client.get(STEPS[-1].url(demo.run)).content.decode()
    assert STEPS[-1].title in page and (REAL_MODEL.strip() in page) is offers


def test_new_member_of_the_demo_sees_the_tour_after_the_first_sign_in(client, demo):
    person = User.objects.create_user("dora", password=PASSWORD)
    Membership.objects.create(project=demo.run.project, user=person, role=Membership.Role.RATER)
    client.post(reverse("account_login"), {"login": "dora", "password": PASSWORD})
    assert STEPS[0].title in client.get(STEPS[0].url(demo.run)).content.decode()
    assert [client.get(step.url(demo.run)).status_code for step in STEPS] == [200] * len(STEPS)


def test_tour_can_be_skipped_at_once(client, demo):
    client.force_login(demo.bob)
    client.post(reverse("tour"), {"to": "0"})
    assert STEPS[0].title not in client.get(STEPS[0].url(demo.run)).content.decode()


def test_other_pages_only_link_to_the_current_tour_step(client, demo):
    client.force_login(demo.alice)
    page = client.get(reverse("tasksets")).content.decode()
    assert f'href="{STEPS[0].url(demo.run)}"' in page and STEPS[0].title not in page


def test_user_without_a_demo_has_no_tour(client, demo):
    client.force_login(demo.carol)
    assert "Tour" not in client.get(reverse("live")).content.decode()
    assert (
        "needs a demo run"
        in client.post(reverse("tour"), {"to": "2"}, follow=True).content.decode()
    )


def test_tour_without_a_demo_runs_no_query_and_starts_once_there_is_one(client, seeded):
    client.force_login(seeded.alice)
    with CaptureQueriesContext(connection) as seen:
        client.get(reverse("tasksets"))
    assert not [query for query in seen.captured_queries if "'tone%'" in query["sql"]]
    Project.objects.filter(pk=seeded.run.project_id).update(slug="demo")
    client.force_login(seeded.alice)
    assert "Continue the tour (1 of" in client.get(reverse("tasksets")).content.decode()


STATES = {
    "created": "Start run",
    "paused": "Resume run",
    "stopped": "Run again",
    "completed": "Run again",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_tour_of_an_inactive_run_says_so_and_can_start_it(client, demo, state, number):
    Run.objects.filter(pk=demo.run.pk).update(state=state, state_reason="")
    User.objects.filter(pk=demo.alice.pk).update(tour_step=number)
    client.force_login(demo.alice)
    page = client.get(STEPS[number - 1].url(demo.run)).content.decode()
    assert "There are no new replies" in page and STATES[state] in page
    address = client.post(reverse("tour"), {"to": number, "wake": "1"})["Location"]
    run = demo_run(demo.alice)
    assert run.state == Run.State.RUNNING and address == STEPS[number - 1].url(run)
    assert "There are no new replies" not in client.get(address).content.decode()
    assert (run.pk == demo.run.pk) == (state in ("created", "paused"))


def test_rater_on_the_tour_cannot_resume_the_run(client, demo):
    Run.objects.filter(pk=demo.run.pk).update(state="paused")
    client.force_login(demo.bob)
    assert (
        "when an owner or researcher has resumed it"
        in client.get(STEPS[0].url(demo.run)).content.decode()
    )
    assert client.post(reverse("tour"), {"to": 1, "wake": "1"}).status_code == 403
    assert Run.objects.get(pk=demo.run.pk).state == Run.State.PAUSED


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_tour_page_of_an_older_run_links_to_the_active_run(client, demo, number):
    Run.objects.filter(pk=demo.run.pk).update(state="completed")
    new = run_again(Run.objects.get(pk=demo.run.pk), demo.alice)
    User.objects.filter(pk=demo.alice.pk).update(tour_step=number)
    client.force_login(demo.alice)
    page = client.get(STEPS[number - 1].url(demo.run)).content.decode()
    assert (
        "The demo run is now tone-8." in page
        and f'href="{STEPS[number - 1].url(new)}">Go there' in page
    )


@pytest.mark.parametrize("asked", ["", "-1", "99", "x", "²"])
def test_unknown_tour_step_is_rejected_and_the_tour_does_not_move(client, demo, asked):
    client.force_login(demo.alice)
    before = User.objects.get(pk=demo.alice.pk).tour_step
    assert client.post(reverse("tour"), {"to": asked}).status_code == 400
    assert User.objects.get(pk=demo.alice.pk).tour_step == before


def test_finished_tour_runs_no_query(client, demo, django_assert_max_num_queries):
    client.force_login(demo.alice)
    client.post(reverse("tour"), {"to": "0"})
    with django_assert_max_num_queries(50) as seen:
        client.get(reverse("tasksets"))
    assert not [query for query in seen.captured_queries if "'tone%'" in query["sql"]]
