"""The archive of projects."""

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, User
from apps.runs.archiving import archive_project, restore_project
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(client, alice):
    client.force_login(alice)
    return client


def act(client, what: str):
    return client.post(reverse("project-archive", args=["lab"]), {"act": what}, follow=True)


def test_runs_of_an_archived_project_do_not_start_until_it_is_restored(
    project, alice, new_run, plan
):
    run = new_run()
    run.stop()
    waiting = Run.create(project=project, slug="waiting", title="Waiting", plan=plan())
    archive_project(project, alice)
    project.refresh_from_db()
    with pytest.raises(NotPossible, match="archived project"):
        waiting.start(alice)
    with pytest.raises(ConfigError, match="archived"):
        Run.create(project=project, slug="another", title="Another", plan=plan())
    restore_project(project, alice)
    waiting.start(alice)
    assert Run.objects.get(slug="waiting").state == "running"


def test_project_with_active_runs_cannot_be_archived_and_the_message_lists_them(
    owner, project, run
):
    assert f"Stop these runs first: {run.slug}." in act(owner, "archive").content.decode()
    project.refresh_from_db()
    assert project.archived_at is None


def test_archived_project_is_hidden_from_lists_and_shown_by_a_filter(owner, project, run):
    run.stop()
    assert "is archived. You can restore it here." in act(owner, "archive").content.decode()
    assert reverse("project", args=["lab"]) not in owner.get(reverse("projects")).content.decode()
    archived = owner.get(reverse("projects"), {"archived": "only"}).content.decode()
    assert reverse("project", args=["lab"]) in archived
    row = f'aria-label="Select {run.slug}"'
    assert row not in owner.get(reverse("runs")).content.decode()
    for query in ({"archived": "only"}, {"archived": "all"}, {"project": "lab"}):
        assert row in owner.get(reverse("runs"), query).content.decode()
    for name in ("tasksets", "policies", "environments", "weights", "arenas"):
        assert "/lab/" not in owner.get(reverse(name)).content.decode(), name
    assert ", archived" in owner.get(reverse("find-rows"), {"words": "lab"}).content.decode()


def test_archiving_and_restoring_are_in_the_audit_log(owner, project):
    act(owner, "archive")
    act(owner, "archive")  # nothing changes
    act(owner, "restore")
    acts = AuditEntry.objects.filter(project=project).order_by("pk").values_list("action", "name")
    assert list(acts) == [("project archived", "alice"), ("project restored", "alice")]


def test_researcher_cannot_archive_a_project(client, project):
    dora = User.objects.create(username="dora")
    Membership.objects.create(project=project, user=dora, role="researcher")
    client.force_login(dora)
    assert client.post(
        reverse("project-archive", args=["lab"]), {"act": "archive"}
    ).status_code == (403)
