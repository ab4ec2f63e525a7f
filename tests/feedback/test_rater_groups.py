"""Groups of raters: owners manage them, and the queue offers a group the items assigned to it."""

import re

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Project, RaterGroup, User
from apps.feedback import known_items
from apps.feedback.claiming import claim, waiting_by_run, waiting_for
from apps.feedback.models import Item
from apps.feedback.ratings.stars import openly_ratable_by
from apps.runs.models import Run
from apps.tasksets.models import Task
from tests.dashboard.test_people_page import filled
from tests.feedback.asking import ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def dora(project) -> User:
    dora = User.objects.create(username="dora")
    Membership.objects.create(project=project, user=dora, role="rater")
    return dora


@pytest.fixture
def experts(project, dora) -> RaterGroup:
    group = RaterGroup.objects.create(project=project, name="experts")
    group.members.add(dora)
    return group


@pytest.fixture
def asked(new_run, finish):
    """Return a function that creates a run with these rater settings and opens one of its groups
    for rating.
    """

    def make(**raters: object) -> Run:
        run = new_run(people={"per_group": 1, "deadline_s": 600, "raters": raters})
        ask(run, finish, ["one", "two"])
        return run

    return make


def may_rate_one(person: User, run: Run) -> bool:
    return openly_ratable_by(person, run.rollouts.values_list("pk", flat=True)).exists()


def set_domain(run: Run, domain: str) -> None:
    Task.objects.filter(taskset=run.taskset).update(domain=domain)


def test_only_members_of_the_configured_group_get_items(asked, experts, bob, dora):
    run = asked(groups=["experts"])
    assert waiting_for(bob, 10).count == 0 and claim(bob) == []
    assert waiting_by_run(dora, 10, 10) == {run.pk: 1}
    assert [held.run_id for held in claim(dora)] == [run.pk]


def test_group_of_the_same_name_in_another_project_gives_no_access(asked, experts, bob):
    other = RaterGroup.objects.create(
        project=Project.objects.create(slug="other", title="Other"), name="experts"
    )
    other.members.add(bob)
    run = asked(groups=["experts"])
    assert claim(bob) == []
    assert not may_rate_one(bob, run)


def test_domain_assigned_to_a_group_is_rated_only_by_its_members(asked, experts, bob, dora):
    run = asked(domain_groups=["sums: experts"])
    set_domain(run, "sums")
    assert waiting_for(bob, 10).count == 0 and claim(bob) == []
    assert not may_rate_one(bob, run)
    assert may_rate_one(dora, run)
    assert [held.run_id for held in claim(dora)] == [run.pk]


def test_other_domains_are_rated_by_everybody(asked, experts, bob):
    run = asked(domain_groups=["sums: experts"])
    set_domain(run, "words")
    assert may_rate_one(bob, run)
    assert [held.run_id for held in claim(bob)] == [run.pk]


def test_gold_items_of_a_domain_stay_with_its_group(new_run, finish, experts, bob, dora, alice):
    """Set the gold rate to 1, so that a gold item would replace every item."""
    raters = {"domain_groups": ["sums: experts"]}
    run = new_run(
        people={"per_group": 1, "deadline_s": 600, "raters": raters, "gold": {"rate": 1.0}}
    )
    [about] = ask(run, finish, ["gold", "other"])
    rollout = about.rollouts.order_by("pk").first()
    known_items.create_known_item(run, [rollout], "gold", {"stars": 5}, "It is polite.", alice)
    Task.objects.filter(pk=about.task_id).update(domain="sums")
    ask(run, finish, ["one", "two"])
    assert [Item.objects.get(pk=held.item_id).purpose for held in claim(bob)] == ["reward"]
    assert [Item.objects.get(pk=held.item_id).purpose for held in claim(dora)] == ["gold"]


def test_person_who_leaves_the_project_leaves_its_groups(experts, dora):
    Membership.objects.get(user=dora).take()
    assert not experts.members.exists()


def test_an_owner_creates_fills_and_deletes_a_group(client, alice, bob, dora):
    client.force_login(alice)
    form = {"name": "maths"}
    assert client.post(reverse("project-groups", args=["lab"]), form).status_code == 302
    group = RaterGroup.objects.get(name="maths")
    address = reverse("project-group", args=["lab", group.pk])
    offered = [bob.pk, dora.pk]
    client.post(address, {"act": "save", "members": [bob.pk], "offered": offered})
    assert list(group.members.all()) == [bob]
    client.post(address, {"act": "save", "members": [dora.pk], "offered": offered})
    assert list(group.members.all()) == [dora]
    assert "maths" in client.get(reverse("project", args=["lab"])).content.decode()
    client.post(address, {"act": "delete"})
    assert not RaterGroup.objects.exists()
    acts = AuditEntry.objects.filter(target="rater group maths").order_by("pk")
    assert [entry.action for entry in acts] == [
        "rater group created",
        "rater group changed",
        "rater group changed",
        "rater group deleted",
    ]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "experts"}, "The project already has a group with this name"),
        ({"name": "a: b"}, "without colon or comma"),
        ({"name": "new", "members": ["999999"]}, "999999"),
    ],
)
def test_invalid_group_form_is_rejected_with_an_error(client, alice, experts, form, message):
    client.force_login(alice)
    answer = client.post(reverse("project-groups", args=["lab"]), form)
    assert answer.status_code == 422 and message in answer.content.decode()
    assert RaterGroup.objects.count() == 1


def fill_project(project: Project, count: int) -> list[User]:
    people = User.objects.bulk_create(User(username=f"r-{n:04}") for n in range(count))
    Membership.objects.bulk_create(
        Membership(user=person, project=project, role=Membership.Role.RATER) for person in people
    )
    return people


def test_members_that_the_page_did_not_offer_stay_in_the_group(client, alice, experts):
    people = fill_project(experts.project, 60)
    experts.members.set(people)
    client.force_login(alice)
    page = client.get(reverse("project", args=["lab"]), {"group": experts.pk}).content.decode()
    offered = re.findall(r'name="offered"\s+value="(\d+)"', page)
    assert len(offered) == 50 and "Search raters" in page
    form = {"act": "save", "offered": offered, "members": offered[1:]}
    client.post(reverse("project-group", args=["lab", experts.pk]), form)
    assert set(people) - set(experts.members.all()) == {User.objects.get(pk=offered[0])}


def test_raters_of_a_group_are_searched_by_name(client, alice, experts):
    fill_project(experts.project, 60)
    client.force_login(alice)
    parameters = {"group": experts.pk, "raters": "r-005"}
    page = client.get(reverse("project", args=["lab"]), parameters).content.decode()
    assert len(re.findall(r'name="offered"', page)) == 10 and "r-0059" in page


def test_page_of_a_project_with_many_groups_is_bounded(client, alice, experts):
    people = fill_project(experts.project, 300)
    RaterGroup.objects.bulk_create(
        RaterGroup(project=experts.project, name=f"group {n:03}") for n in range(120)
    )
    for group in RaterGroup.objects.all()[:5]:
        group.members.set(people)
    client.force_login(alice)
    page = client.get(reverse("project", args=["lab"])).content.decode()
    assert page.count('data-testid="group"') == 50 and len(page) < 150_000
    found = client.get(reverse("project", args=["lab"]), {"groups": "group 119"}).content.decode()
    assert found.count('data-testid="group"') == 1


def test_stranger_cannot_be_added_to_a_group(client, alice, carol, experts):
    client.force_login(alice)
    form = {"act": "save", "members": [carol.pk], "offered": [carol.pk]}
    client.post(reverse("project-group", args=["lab", experts.pk]), form)
    assert carol not in experts.members.all()


def test_group_used_by_a_run_cannot_be_deleted(client, alice, experts, asked):
    run = asked(groups=["experts"])
    client.force_login(alice)
    address = reverse("project-group", args=["lab", experts.pk])
    text = client.post(address, {"act": "delete"}, follow=True).content.decode()
    assert f"{run.slug} asks it to rate" in text and RaterGroup.objects.exists()


def test_rating_setup_offers_the_projects_groups_and_rejects_others(client, alice, experts, asked):
    run = asked()
    set_domain(run, "sums")
    client.force_login(alice)
    page = client.get(reverse("run-people", args=["lab", run.slug])).content.decode()
    assert 'value="experts"' in page and 'value="sums: experts"' in page
    form = filled(run, raters__domain_groups=["sums: nobody"])
    answer = client.post(reverse("run-people", args=["lab", run.slug]), form)
    assert answer.status_code == 422 and "no groups of raters of project lab: nobody" in (
        answer.content.decode()
    )
