"""The six tabs of a run: each role sees exactly the tabs that it may open."""

import re

import pytest
from django.http import HttpResponse
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.dashboard.run_pages import TABS
from apps.evaluation.asking import start_evaluation
from apps.runs.evaluation import Questions
from apps.runs.models import Run
from tests.dashboard.evaluating import publish

NAVIGATION = re.compile(r'<nav class="tabs (?:run|sub)-tabs".*?</nav>', re.DOTALL)
ADDRESS = re.compile(r'href="([^"]+)"')
ROLES = (*Membership.Role.values, "viewer who is asked", "administrator")


@pytest.fixture
def published(run, alice):
    """Return a run whose versions 1 and 2 can be evaluated."""
    publish(run, 1, 2)
    return run


@pytest.fixture
def enter(client, seeded):
    """Return `enter(role)`, which signs in a person with that role in the project of the run."""

    def sign_in(role: str) -> None:
        user = User.objects.create(username="erin", is_superuser=role == "administrator")
        if role == "viewer who is asked":
            config = seeded.run.config
            config["people"]["raters"] = {"people": ["erin"], "groups": []}
            Run.objects.filter(pk=seeded.run.pk).update(config=config)
        if role != "administrator":
            Membership.objects.create(
                project=seeded.run.project, user=user, role=role.partition(" ")[0]
            )
        client.force_login(user)

    return sign_in


def tabs_of(html: str) -> list[str]:
    """Return the addresses in the navigation of a run's page."""
    return [url for part in NAVIGATION.findall(html) for url in ADDRESS.findall(part)]


def offered(client, run: Run) -> dict[str, HttpResponse]:
    """Return the responses of all addresses in the tabs, and in the navigation below each tab."""
    first = client.get(reverse("run", args=[run.project.slug, run.slug]), follow=True)
    answers = {url: client.get(url) for url in set(tabs_of(first.content.decode()))}
    below = {url for answer in answers.values() for url in tabs_of(answer.content.decode())}
    return answers | {url: client.get(url) for url in below - answers.keys()}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_offered_tabs_that_open_and_every_page_that_it_may_read(
    client, seeded, enter, role
):
    enter(role)
    found = offered(client, seeded.run)
    closed = {url for url, answer in found.items() if answer.status_code != 200}
    assert found and closed == set(), "tabs lead to pages that do not open"
    blind = {url for url, answer in found.items() if b"You rate this run blind</" in answer.content}
    assert blind <= {reverse("run", args=["lab", seeded.run.slug])}
    pages = {page.url for pages in TABS.values() for page in pages}
    addresses = {reverse(name, args=["lab", seeded.run.slug]) for name in pages}
    left_out = {url: client.get(url) for url in addresses - found.keys()}
    readable = [
        url
        for url, answer in left_out.items()
        if answer.status_code == 200 and b"You rate this run blind" not in answer.content
    ]
    assert readable == [], "no tab leads to pages that may be read"


def test_an_owner_sees_six_tabs(client, seeded):
    client.force_login(seeded.alice)
    html = client.get(reverse("run", args=["lab", seeded.run.slug])).content.decode()
    [tabs, *_] = NAVIGATION.findall(html)
    assert re.findall(r">([^<>]+)</a>", tabs) == [
        "Overview",
        "Rollouts",
        "Evaluate",
        "People",
        "Weights &amp; export",
        "Configure",
    ]


def test_page_below_a_tab_highlights_the_tab_and_itself(client, seeded):
    client.force_login(seeded.alice)
    html = client.get(reverse("run-gold", args=["lab", seeded.run.slug])).content.decode()
    marked = re.findall(r'aria-current="(\w+)">([^<]+)</a>', "".join(NAVIGATION.findall(html)))
    assert marked == [("true", "People"), ("page", "Gold items")]


def test_an_evaluation_has_no_tab_that_leads_back_to_itself(client, published, alice):
    version = published.weight_versions.get(version=0)
    made, _ = start_evaluation(version, Questions(taskset="sort", samples=2))
    client.force_login(alice)
    found = offered(client, made)
    assert reverse("run-evaluations", args=["lab", made.slug]) in found
    assert reverse("run", args=["lab", made.slug]) not in found
    assert {answer.status_code for answer in found.values()} == {200}


@pytest.mark.parametrize("place", [page.url for pages in TABS.values() for page in pages])
def test_breadcrumbs_start_the_same_on_every_page(client, seeded, place):
    client.force_login(seeded.alice)
    html = client.get(reverse(place, args=["lab", seeded.run.slug])).content.decode()
    crumbs = html.partition('aria-label="Breadcrumb"')[2].partition("</nav>")[0]
    names = re.findall(r">([^<>/\n]+)<", crumbs)
    assert names[:3] == ["Runs", "lab", seeded.run.slug]
