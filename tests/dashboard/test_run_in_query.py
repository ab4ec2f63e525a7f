"""A run in the query of an address: by its number, its name, or its project and name."""

from urllib.parse import quote

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Project
from apps.runs.models import Run
from apps.streaming.models import Topic

PAGES = ("rate", "rate-end", "live")


@pytest.fixture
def alice(client, seeded):
    client.force_login(seeded.alice)
    return client


def namesake(seeded, is_seen: bool) -> Run:
    """Create a run of the same name in another project, of which the user is a member or not."""
    other = Project.objects.create(slug="other", title="Other")
    if is_seen:
        Membership.objects.create(project=other, user=seeded.alice, role="owner")
    copy = Run.objects.get(pk=seeded.run.pk)
    copy.pk = None
    copy.project = other
    copy.topic = Topic.objects.create(project=other, name="namesake")
    copy.save()
    return copy


@pytest.mark.parametrize("page", PAGES)
def test_a_run_is_found_by_number_name_or_project_and_name(alice, seeded, page):
    run = seeded.run
    for name in (str(run.pk), run.slug, f"{run.project.slug}/{run.slug}"):
        answer = alice.get(reverse(page), {"run": name})
        assert answer.status_code == 200, name
        shown = answer.context["chosen"] if page == "live" else answer.context["run"]
        assert shown == run


def test_next_item_can_be_requested_by_run_name(alice, seeded):
    for name in (str(seeded.run.pk), seeded.run.slug):
        answer = alice.post(f"{reverse('rate-next')}?run={name}")
        assert answer.status_code in (200, 204), name


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", ["nothing", "1,2", "-1", "9" * 30, "a/b/c", "<b>", "lab/"])
def test_unknown_run_name_returns_404_with_the_accepted_forms(alice, page, name):
    answer = alice.get(reverse(page), {"run": name})
    html = answer.content.decode()
    assert answer.status_code == 404
    assert "no run of your projects is" in html and "its name or its number" in html
    assert "<b><b>" not in html


def test_run_name_used_in_two_projects_requires_the_project(alice, seeded):
    other = namesake(seeded, is_seen=True)
    answer = alice.get(reverse("rate"), {"run": seeded.run.slug})
    assert answer.status_code == 404
    html = answer.content.decode()
    assert f"lab/{other.slug}" in html and f"other/{other.slug}" in html
    answer = alice.get(f"{reverse('rate')}?run={quote(f'other/{other.slug}')}")
    assert answer.context["run"] == other


def test_run_of_a_foreign_project_is_not_found_and_causes_no_ambiguity(alice, seeded):
    other = namesake(seeded, is_seen=False)
    assert alice.get(reverse("rate"), {"run": other.slug}).context["run"] == seeded.run
    for name in (f"other/{other.slug}", str(other.pk)):
        assert alice.get(reverse("rate"), {"run": name}).status_code == 404
