"""Owners see what the deletion of a project removes, confirm it by name, and see its progress."""

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Project, Token, User
from apps.policies.models import Policy
from apps.runs.deleting_projects import shared_folders
from apps.runs.models import ProjectRemoval
from apps.tasksets.models import TasksetImport

pytestmark = pytest.mark.django_db
PAGE = "/projects/lab/delete/"


@pytest.fixture
def stopped(run):
    run.stop()
    return run


@pytest.fixture
def owner(client, alice):
    client.force_login(alice)
    return client


def test_page_counts_what_is_deleted_and_lists_what_is_kept(owner, stopped):
    text = owner.get(PAGE).content.decode()
    assert '<span class="num">1</span> run,' in text
    assert '<span class="num">1</span> taskset,' in text
    assert "the accounts of its members" in text and "the audit log" in text
    assert 'Type <span class="num">lab</span> to confirm' in text


def test_project_is_deleted_only_after_its_short_name_is_typed(owner, stopped):
    refused = owner.post(PAGE, {"confirmation": "laboratory"})
    assert refused.status_code == 422
    assert "Nothing was deleted. Type the project’s short name: lab." in refused.content.decode()
    assert not ProjectRemoval.objects.exists()
    answer = owner.post(PAGE, {"confirmation": "lab"})
    assert answer.url == reverse("project-deletion", args=[ProjectRemoval.objects.get().pk])


def test_project_being_deleted_is_unreachable_and_shows_its_progress(owner, stopped):
    owner.post(PAGE, {"confirmation": "lab"})
    ProjectRemoval.objects.update(state="running", total=200, done=50)
    removal = ProjectRemoval.objects.get()
    listed = owner.get(reverse("projects")).content.decode()
    assert "Being deleted" in listed and "25 %" in listed
    assert owner.get(reverse("project", args=["lab"])).url == (
        reverse("project-deletion", args=[removal.pk])
    )
    assert owner.get(reverse("run", args=["lab", stopped.slug])).status_code == 404
    assert owner.get(PAGE).status_code == 404
    now = owner.get(reverse("project-deletion-now", args=[removal.pk])).content.decode()
    assert '<span class="num">50</span> of <span class="num">200</span> rows' in now


def test_administrator_cannot_open_a_project_being_deleted_but_sees_its_progress(
    client, owner, stopped
):
    owner.post(PAGE, {"confirmation": "lab"})
    client.force_login(User.objects.create(username="root", is_superuser=True))
    assert client.get(reverse("run", args=["lab", stopped.slug])).status_code == 404
    page = reverse("project-deletion", args=[ProjectRemoval.objects.get().pk])
    assert client.get(page).status_code == 200


def test_running_runs_and_open_imports_prevent_the_deletion(owner, project, run):
    TasksetImport.objects.create(project=project, name="a.jsonl", bytes=1, state="waiting")
    text = owner.get(PAGE).content.decode()
    assert f"Stop these runs first: {run.slug}." in text
    assert "These files are being imported: a.jsonl." in text and 'id="confirmation"' not in text
    assert owner.post(PAGE, {"confirmation": "lab"}).status_code == 409
    assert not ProjectRemoval.objects.exists()


def test_researchers_and_strangers_cannot_delete_a_project(client, project):
    dora = User.objects.create(username="dora")
    client.force_login(dora)
    assert client.post(PAGE, {"confirmation": "lab"}).status_code == 404
    Membership.objects.create(project=project, user=dora, role="researcher")
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {"confirmation": "lab"}).status_code == 403
    assert not ProjectRemoval.objects.exists()


def test_audit_log_keeps_who_ordered_the_deletion(owner, stopped):
    owner.post(PAGE, {"confirmation": "lab"})
    entry = AuditEntry.objects.get(action="project deletion ordered")
    assert (entry.target, entry.name) == ("project lab", "alice")


def test_failed_deletion_shows_its_reason_and_can_be_retried(owner, stopped):
    owner.post(PAGE, {"confirmation": "lab"})
    ProjectRemoval.objects.update(state="failed", reason="Its files could not be deleted: busy.")
    removal = ProjectRemoval.objects.get()
    text = owner.get(reverse("project-deletion", args=[removal.pk])).content.decode()
    assert "Its files could not be deleted: busy." in text
    owner.post(reverse("project-deletion-again", args=[removal.pk]))
    removal.refresh_from_db()
    assert (removal.state, removal.reason) == ("waiting", "")


def test_model_files_used_by_another_project_are_counted_as_kept(owner, stopped):
    other = Project.objects.create(slug="other", title="Other")
    policy = stopped.policy
    same = {"source": "x", "fingerprint": "0", "architecture": "x", "parameters": 1}
    Policy.objects.create(
        project=other, slug="same", folder=policy.folder, context_tokens=1, **same
    )
    assert shared_folders(stopped.project) == {policy.folder}
    assert "model’s files, which another project uses" in owner.get(PAGE).content.decode()


def test_a_project_is_deleted_over_rest(client, alice, stopped):
    _, secret = Token.issue(alice, "mine", ["read", "steer"])
    head = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    json = {"content_type": "application/json", **head}
    address = "/api/v1/projects/lab/deletion/"
    plan = client.get(address, **head).json()
    assert plan["reasons"] == [] and plan["deleted"]["runs"] == 1
    wrong = client.post(address, {"name": "x"}, **json)
    assert wrong.status_code == 422 and "lab" in str(wrong.json())
    made = client.post(address, {"name": "lab"}, **json)
    assert made.status_code == 202 and made.json()["state"] == "waiting"
    shown = client.get(f"/api/v1/project-deletions/{made.json()['id']}/", **head).json()
    assert (shown["slug"], shown["runs"], shown["by"]) == ("lab", 1, "alice")
    assert client.get(address, **head).status_code == 404
    listed = client.get("/api/v1/project-deletions/", **head).json()
    assert [one["id"] for one in listed["items"]] == [made.json()["id"]]


def test_deletion_of_a_project_with_running_runs_is_refused_over_rest(client, alice, run):
    _, secret = Token.issue(alice, "mine", ["read", "steer"])
    answer = client.post(
        "/api/v1/projects/lab/deletion/",
        {"name": "lab"},
        content_type="application/json",
        HTTP_AUTHORIZATION=f"Bearer {secret}",
    )
    assert answer.status_code == 409 and "Stop these runs first" in str(answer.json())
