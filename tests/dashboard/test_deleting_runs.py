"""The pages and the REST addresses that delete runs: what they show, require and refuse."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Project, Token, User
from apps.runs.models import Run, RunRemoval

pytestmark = pytest.mark.django_db


@pytest.fixture
def stopped(run) -> Run:
    run.stop()
    return run


@pytest.fixture
def owner(client, alice):
    client.force_login(alice)
    return client


def page(run: Run) -> str:
    return reverse("run-delete", args=["lab", run.slug])


def test_page_shows_what_is_deleted_and_what_is_kept(owner, stopped, finish):
    text = owner.get(page(stopped)).content.decode()
    assert "1</span> taskset," in text and "the model that it started from" in text
    assert f'Type <span class="num">{stopped.slug}</span> to confirm' in text


def test_run_is_deleted_only_after_its_name_is_typed(owner, stopped):
    refused = owner.post(page(stopped), {"confirmation": "run"})
    assert refused.status_code == 422 and "Nothing was deleted. Type the run’s name" in (
        refused.content.decode()
    )
    assert not RunRemoval.objects.exists()
    answer = owner.post(page(stopped), {"confirmation": stopped.slug})
    removal = RunRemoval.objects.get()
    assert answer.url == reverse("run-deletion", args=[removal.pk])
    assert "worker" in owner.get(answer.url).content.decode()


def test_run_being_deleted_is_unreachable_and_shows_its_progress(owner, stopped):
    owner.post(page(stopped), {"confirmation": stopped.slug})
    RunRemoval.objects.update(state="running", total=200, done=50)
    removal = RunRemoval.objects.get()
    listed = owner.get(reverse("runs")).content.decode()
    assert "Being deleted" in listed and "25 %" in listed
    assert f'aria-label="Select {stopped.slug}"' not in listed
    run_page = owner.get(reverse("run", args=["lab", stopped.slug]))
    assert run_page.url == reverse("run-deletion", args=[removal.pk])
    assert owner.get(reverse("rollouts", args=["lab", stopped.slug])).status_code == 404
    now = owner.get(reverse("run-deletion-now", args=[removal.pk])).content.decode()
    assert '<span class="num">50</span> of <span class="num">200</span> rows' in now


def test_running_run_cannot_be_deleted(owner, run):
    text = owner.get(page(run)).content.decode()
    assert "Stop it first" in text and 'id="confirmation"' not in text
    assert owner.post(page(run), {"confirmation": run.slug}).status_code == 409
    assert Run.objects.get().state == "running"


def test_researcher_cannot_delete_runs(client, project, stopped):
    dora = User.objects.create(username="dora")
    Membership.objects.create(project=project, user=dora, role="researcher")
    client.force_login(dora)
    assert client.get(page(stopped)).status_code == 403
    form = {"act": "delete", "run": stopped.pk, "confirmation": stopped.slug}
    assert client.post(reverse("runs-act"), form).status_code == 403
    settings = client.get(reverse("run-settings", args=["lab", stopped.slug])).content.decode()
    assert "Delete run" not in settings


def test_several_runs_are_deleted_after_their_number_is_typed(owner, new_run):
    runs = [new_run(), new_run()]
    for run in runs:
        run.stop()
    form = {"act": "delete", "run": [run.pk for run in runs]}
    asked = owner.post(reverse("runs-act"), form).content.decode()
    assert 'Type <span class="num">2</span> to confirm' in asked
    owner.post(reverse("runs-act"), {**form, "confirmation": "2"})
    assert RunRemoval.objects.count() == 2


def test_failed_deletion_shows_its_reason_and_can_be_retried(owner, stopped):
    owner.post(page(stopped), {"confirmation": stopped.slug})
    RunRemoval.objects.update(state="failed", reason="Its files could not be deleted: busy.")
    removal = RunRemoval.objects.get()
    text = owner.get(reverse("run-deletion", args=[removal.pk])).content.decode()
    assert "Its files could not be deleted: busy." in text and "Fix the cause" in text
    owner.post(reverse("run-deletion-again", args=[removal.pk]))
    removal.refresh_from_db()
    assert (removal.state, removal.reason) == ("waiting", "")


def test_rater_cannot_retry_a_deletion_and_reads_who_can(client, bob, owner, stopped):
    owner.post(page(stopped), {"confirmation": stopped.slug})
    RunRemoval.objects.update(state="failed", reason="Its files could not be deleted: busy.")
    address = reverse("run-deletion", args=[RunRemoval.objects.get().pk])
    client.force_login(bob)
    text = client.get(address).content.decode()
    assert "An owner of the project can try again." in text and "Try again</button>" not in text
    assert client.post(address + "again/").status_code == 403


def test_run_list_of_a_project_shows_only_its_own_deletions(owner, alice, stopped):
    owner.post(page(stopped), {"confirmation": stopped.slug})
    Project.create("Other", "other", alice)
    assert "Being deleted" in owner.get("/runs/?project=lab").content.decode()
    assert "Being deleted" not in owner.get("/runs/?project=other").content.decode()


def test_palette_finds_the_deletion_of_the_current_run(owner, stopped):
    found = owner.get(reverse("find-rows"), {"words": "delete run", "run": f"lab/{stopped.slug}"})
    assert page(stopped) in found.content.decode()


def test_a_run_is_deleted_over_rest(client, alice, stopped):
    _, secret = Token.issue(alice, "mine", ["read", "steer"])
    head = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    address = f"/api/v1/runs/{stopped.pk}/deletion/"
    plan = client.get(address, **head).json()
    assert plan["reasons"] == [] and plan["kept"]["tasksets"] == 1
    wrong = client.post(address, {"name": "x"}, content_type="application/json", **head)
    assert wrong.status_code == 422 and stopped.slug in str(wrong.json())
    made = client.post(address, {"name": stopped.slug}, content_type="application/json", **head)
    assert made.status_code == 202 and made.json()["state"] == "waiting"
    shown = client.get(f"/api/v1/run-deletions/{made.json()['id']}/", **head).json()
    assert (shown["run"], shown["slug"], shown["by"]) == (stopped.pk, stopped.slug, "alice")
    assert client.get(f"/api/v1/runs/{stopped.pk}/", **head).status_code == 404
    listed = client.get("/api/v1/run-deletions/?project=lab", **head).json()
    assert [one["id"] for one in listed["items"]] == [made.json()["id"]]


def test_deletion_of_a_running_run_is_refused_over_rest(client, alice, run):
    _, secret = Token.issue(alice, "mine", ["read", "steer"])
    head = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    answer = client.post(
        f"/api/v1/runs/{run.pk}/deletion/",
        {"name": run.slug},
        content_type="application/json",
        **head,
    )
    assert answer.status_code == 409 and "Stop it first" in str(answer.json())
