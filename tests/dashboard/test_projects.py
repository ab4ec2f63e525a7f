"""Pages of projects, members and invitations, and the page that an invitation's link opens."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Invitation, Membership, Project, User
from tests.conftest import PASSWORD
from tests.feedback.test_claiming import waits_for_a_row

pytestmark = pytest.mark.django_db
NEW_PASSWORD = "a long new passphrase 7"


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def link_in(text: str) -> str:
    """Return the path of the invitation link that the page shows."""
    return re.search(r"http://testserver(/invitations/rft_inv_[\w-]+/)", text).group(1)


def invite(owner: Client, **changes: object) -> str:
    form = {"role": "rater", "max_uses": 1, "days": 7, "note": "for Carol", **changes}
    answer = owner.post(reverse("project-invite", args=["lab"]), form)
    assert answer.status_code == 200
    return link_in(answer.content.decode())


def test_an_owner_creates_a_project_and_owns_it(owner, alice):
    answer = owner.post(reverse("projects"), {"title": "Customer support"})
    assert answer.url == reverse("project", args=["customer-support"])
    project = Project.objects.get(slug="customer-support")
    assert project.memberships.get().user == alice and project.memberships.get().role == "owner"
    assert AuditEntry.objects.filter(action="project created", by=alice, project=project).exists()


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"title": ""}, "This field is required"),
        ({"title": "!!!"}, "Enter a short name"),
        ({"title": "x" * 201}, "at most 200"),
        ({"title": "Mine", "slug": "lab"}, "is taken"),
        ({"title": "Mine", "slug": "no slug"}, "valid “slug”"),
    ],
)
def test_invalid_project_form_is_rejected_with_an_error(owner, form, message):
    answer = owner.post(reverse("projects"), form)
    assert answer.status_code == 422 and message in answer.content.decode()
    assert Project.objects.count() == 1


def test_rater_sees_projects_but_cannot_create_one(bob):
    client = signed_in(bob)
    text = client.get(reverse("projects")).content.decode()
    assert "The lab" in text and reverse("project", args=["lab"]) not in text
    assert client.post(reverse("projects"), {"title": "Mine"}).status_code == 403


def test_the_list_counts_all_members(owner, bob, carol):
    page = owner.get(reverse("projects")).context["page"]
    assert [project.members for project in page.rows] == [2]


def test_researcher_cannot_manage_members(project, alice, carol):
    Membership.objects.create(project=project, user=carol, role="researcher")
    client = signed_in(carol)
    assert client.get(reverse("project", args=["lab"])).status_code == 403
    made = client.post(reverse("project-invite", args=["lab"]), {"role": "owner"})
    assert made.status_code == 403 and not Invitation.objects.exists()


def test_project_can_be_renamed(owner, alice):
    owner.post(reverse("project", args=["lab"]), {"title": "The new lab"})
    assert Project.objects.get().title == "The new lab"
    entry = AuditEntry.objects.get(action="project renamed")
    assert entry.details == {"before": {"title": "The lab"}, "after": {"title": "The new lab"}}
    assert owner.post(reverse("project", args=["lab"]), {"title": " "}).status_code == 422


def test_owner_changes_a_members_role_and_removes_the_member(owner, bob):
    address = reverse("project-member", args=["lab", bob.memberships.get().pk])
    owner.post(address, {"role": "researcher"})
    assert bob.memberships.get().role == "researcher"
    answer = owner.post(address, {"role": "king"})
    assert (
        answer.status_code == 422 and "choose one of owner, researcher" in answer.content.decode()
    )
    owner.post(address, {"role": ""})
    assert not bob.memberships.exists()


def test_member_of_another_project_cannot_be_changed(owner, carol):
    other = Project.objects.create(slug="other", title="Other")
    membership = Membership.objects.create(project=other, user=carol, role="rater")
    address = reverse("project-member", args=["lab", membership.pk])
    assert owner.post(address, {"role": ""}).status_code == 404
    assert carol.memberships.exists()


def test_only_owner_cannot_be_removed(owner, alice):
    address = reverse("project-member", args=["lab", alice.memberships.get().pk])
    answer = owner.post(address, {"role": ""})
    assert answer.status_code == 409 and "Make another member an owner" in answer.content.decode()
    assert alice.memberships.get().role == "owner"


def test_owner_who_becomes_a_viewer_is_redirected_to_the_projects(owner, project, alice, carol):
    Membership.objects.create(project=project, user=carol, role="owner")
    address = reverse("project-member", args=["lab", alice.memberships.get().pk])
    assert owner.post(address, {"role": "viewer"}).url == reverse("projects")


def test_the_link_of_an_invitation_is_shown_once(owner):
    link = invite(owner)
    assert link not in owner.get(reverse("project", args=["lab"])).content.decode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_uses": 0}, "greater than or equal to 1"),
        ({"max_uses": 501}, "less than or equal to 500"),
        ({"max_uses": "many"}, "whole number"),
        ({"role": "king"}, "valid choice"),
        ({"days": 3}, "valid choice"),
        ({"note": "x" * 101}, "at most 100"),
    ],
)
def test_invalid_invitation_form_is_rejected_with_an_error(owner, changes, message):
    form = {"role": "rater", "max_uses": 1, "days": 7, **changes}
    answer = owner.post(reverse("project-invite", args=["lab"]), form)
    assert answer.status_code == 422 and message in answer.content.decode()
    assert not Invitation.objects.exists()


def test_a_new_person_creates_an_account_and_joins(owner):
    link = invite(owner)
    visitor = Client()
    assert "Join The lab" in visitor.get(link).content.decode()
    form = {"username": "dora", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    answer = visitor.post(link, form)
    assert answer.url == reverse("rate")
    dora = User.objects.get(username="dora")
    assert dora.memberships.get().role == "rater" and not dora.is_staff and not dora.is_superuser
    assert visitor.get(reverse("rate")).status_code == 200
    assert Client().get(link).status_code == 404


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"username": "alice"}, "already exists"),
        ({"username": "lab/dora"}, "valid username"),
        ({"password1": "12345", "password2": "12345"}, "too short"),
        ({"password2": "another passphrase"}, "match"),
    ],
)
def test_invalid_account_form_is_rejected_and_does_not_use_the_invitation(owner, changes, message):
    link = invite(owner)
    form = {"username": "dora", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD, **changes}
    answer = Client().post(link, form)
    assert answer.status_code == 422 and message in answer.content.decode()
    assert Invitation.objects.get().uses == 0 and not User.objects.filter(username="dora").exists()


@pytest.mark.django_db(transaction=True)
def test_username_taken_at_the_same_time_is_rejected_at_its_field(owner, eventually):
    link = invite(owner)
    form = {"username": "dora", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}

    def join() -> tuple[int, str]:
        try:
            answer = Client().post(link, form)
            return answer.status_code, answer.content.decode()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            User.objects.create(username="dora")
            answer = pool.submit(join)
            eventually(waits_for_a_row)
        status, text = answer.result()
    assert status == 422 and "already exists" in text
    assert Invitation.objects.get().uses == 0


def test_person_with_an_account_signs_in_and_joins(owner, carol):
    link = invite(owner, role="viewer")
    visitor = Client()
    login = re.search(r'href="(/accounts/login/\?next=[^"]+)"', visitor.get(link).content.decode())
    answer = visitor.post(login.group(1), {"login": "carol", "password": PASSWORD})
    assert answer.url == link
    assert "signed in as" in visitor.get(link).content.decode()
    assert not carol.memberships.exists()  # opening the link alone does nothing
    assert visitor.post(link).url == reverse("home")
    assert carol.memberships.get().role == "viewer"


def test_member_who_opens_an_invitation_link_sees_that_they_are_a_member(owner, bob):
    link = invite(owner, role="owner")
    client = signed_in(bob)
    assert "already a member" in client.get(link).content.decode()
    assert client.post(link).url == reverse("rate")
    assert bob.memberships.get().role == "rater"


def test_revoked_invitation_link_returns_404(owner):
    link = invite(owner)
    invitation = Invitation.objects.get()
    owner.post(reverse("project-invitation-revoke", args=["lab", invitation.pk]))
    assert Client().get(link).status_code == 404
    again = owner.post(reverse("project-invitation-revoke", args=["lab", invitation.pk]))
    assert again.status_code == 404


def test_project_page_with_120_members_stays_within_the_query_limit(
    owner, project, bob, django_assert_max_num_queries
):
    people = User.objects.bulk_create([User(username=f"person-{n:03}") for n in range(120)])
    Membership.objects.bulk_create(
        [Membership(project=project, user=person, role="rater") for person in people]
    )
    for _ in range(20):
        Invitation.create(project, "rater", timedelta(days=1), project.memberships.first().user)
    with django_assert_max_num_queries(18):
        page = owner.get(reverse("project", args=["lab"]))
    assert len(page.context["page"].rows) == 50 and page.context["page"].older


def test_member_search_appears_when_members_fill_more_than_a_page(owner, project):
    def search(**query: str) -> str:
        return owner.get(reverse("project", args=["lab"]), query).content.decode()

    assert 'name="words"' not in search()
    people = [User(username=f"member-{number:02}", password="!") for number in range(60)]
    Membership.objects.bulk_create(
        Membership(project=project, user=user, role=Membership.Role.RATER)
        for user in User.objects.bulk_create(people)
    )
    page = search()
    assert 'name="words"' in page and "member-59" not in re.search(
        '(?s)data-testid="members".*?</table>', page
    ).group(0)
    rows = re.search('(?s)data-testid="members".*?</table>', search(words="R-59")).group(0)
    assert "member-59" in rows and "member-58" not in rows
    nobody = search(words="<nobody>")
    assert "no-member" in nobody and "&lt;nobody&gt;" in nobody
    assert 'data-testid="members"' not in search(words="nul\0member-59")
