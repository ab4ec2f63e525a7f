"""Deleting a project removes it completely, with its runs and files, and nothing else.

A deletion whose worker was killed is continued; ratings that arrive meanwhile are deleted, too.
"""

import os
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import connection, connections, transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.environments.models import Environment, Episode, PlaySession
from apps.evaluation.models import Arena, Contestant, Pairing, Vote
from apps.feedback.models import Demonstration, Rating
from apps.feedback.ratings.stars import Stars, give
from apps.policies.models import Policy
from apps.rollouts.models import Group, Rollout
from apps.runs.deleting import NotDeletable
from apps.runs.deleting_projects import contents_of, delete_project
from apps.runs.models import ProjectRemoval, Run, RunRemoval
from apps.tasksets.models import Task, Taskset
from tests.browser.conftest import _url_of
from tests.keeping import Kept
from tests.workers.test_run_removal import is_blocked_by_a_lock
from workers.run_removal import projects
from workers.run_removal.project_rows import paths_to_projects
from workers.run_removal.projects import remove_next_project
from workers.run_removal.removing import remove_next
from workers.run_removal.rows import tables_of_runs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def weights(settings, tmp_path) -> Path:
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    return settings.WEIGHTS_ROOT


@pytest.fixture
def seeded(transactional_db, kept_run: Kept) -> SimpleNamespace:
    """Create a project with a stopped run, and an arena, a lesson and an episode without a run."""
    kept_run.put_back()
    run = Run.objects.get()
    run.stop()
    Group.objects.close_ended()
    project = run.project
    alice = User.objects.get(username="alice")
    arena = Arena.objects.create(
        project=project, taskset=run.taskset, title="A", tasks=1, samples=1
    )
    rival = Run.create(project=project, slug="rival", title="Rival", plan=run.settings)
    sides = [
        Contestant.objects.create(arena=arena, run=one, place=place)
        for place, one in enumerate((run, rival))
    ]
    pairing = Pairing.objects.create(arena=arena, first=sides[0], second=sides[1], size=1, same=0)
    task = run.taskset.tasks.first()
    Vote.objects.create(
        pairing=pairing,
        task=task,
        sample_index=0,
        rater=alice,
        choice="first",
        first_on_left=True,
        client_uuid=uuid.uuid4(),
    )
    Demonstration.objects.create(
        project=project, prompt=[], answer="Hello.", key="a", source="the page", task=task
    )
    maze = Environment.objects.create(project=project, name="maze", kind="push")
    session = PlaySession.objects.create(environment=maze, user=alice)
    Episode.objects.create(
        environment=maze, session=session, client=alice, seed=0, turn_limit=3, state="waiting"
    )
    project.imported_raters_named({"eve": False})
    return SimpleNamespace(run=run, project=project, alice=alice)


def finish(removal: ProjectRemoval) -> ProjectRemoval:
    """Do the work of the workers until the deletion is over, without waiting times."""
    for _ in range(20):
        removal.refresh_from_db()
        if not removal.is_open:
            return removal
        ProjectRemoval.objects.filter(state="waiting").update(lease_until=None)
        RunRemoval.objects.filter(state="waiting").update(lease_until=None)
        while remove_next_project("worker") or remove_next("worker"):
            pass
    raise AssertionError(f"{removal} is {removal.state}: {removal.reason}")


def left_of_projects() -> dict[str, int]:
    """Return the number of rows that belong to a project or run, by table."""
    tables = {path.table for path in paths_to_projects()} | set(tables_of_runs())
    owned = {table.__name__: table._base_manager.count() for table in tables - {User}}
    return {name: count for name, count in owned.items() if count}


def test_deleting_a_project_removes_all_its_rows_and_keeps_its_members(seeded):
    assert len(left_of_projects()) > 30
    removal = finish(delete_project(seeded.project, seeded.alice))
    assert (removal.state, removal.reason) == ("done", "")
    assert removal.done == removal.total > 300
    assert not Project.objects.exists() and not Run.objects.exists()
    # Objects of the users themselves have no project.
    kept = {"Event", "LogEntry", "Token", "EmailAddress", "Authenticator"}
    assert left_of_projects().keys() <= kept
    assert User.objects.filter(username="alice").exists()
    assert not User.objects.filter(imported_into__isnull=False).exists()


def test_deleting_a_project_keeps_other_projects_and_shared_model_files(seeded, weights):
    folders = [weights / "policies" / name for name in ("shared", "own")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"x" * 1000)
    other = Project.objects.create(slug="other", title="Other")
    Membership.objects.create(project=other, user=seeded.alice, role="owner")
    theirs = Taskset.objects.create(project=other, slug="theirs", title="Theirs")
    Task.objects.create(taskset=theirs, index=0, prompt=[])
    policy = seeded.run.policy
    for project, slug, folder in ((other, "same", 0), (seeded.project, "shared", 0)):
        Policy.objects.create(**_model(policy, project, slug, folders[folder]))
    Policy.objects.create(**_model(policy, seeded.project, "own", folders[1]))
    finish(delete_project(seeded.project, seeded.alice))
    assert [folder.exists() for folder in folders] == [True, False]
    assert Policy.objects.get().project == other and Task.objects.get().taskset == theirs
    assert Membership.objects.get().project == other


def _model(like: Policy, project: Project, slug: str, folder: Path) -> dict:
    copied = ("title", "source", "fingerprint", "architecture", "parameters", "context_tokens")
    values = {name: getattr(like, name) for name in copied}
    return {**values, "project": project, "slug": slug, "folder": str(folder)}


def test_the_audit_log_keeps_who_deleted_the_project(seeded):
    finish(delete_project(seeded.project, seeded.alice))
    address = ProjectRemoval.objects.get().address
    entries = AuditEntry.objects.filter(target=address).order_by("pk")
    acts = [(entry.action, entry.name) for entry in entries if "delet" in entry.action]
    assert acts == [("project deletion ordered", "alice"), ("project deleted", "alice")]
    assert entries.last().details["rows"] > 300


def test_killed_deletion_is_continued(seeded, eventually, tmp_path):
    removal = delete_project(seeded.project, seeded.alice)
    environment = {
        **os.environ,
        "DATABASE_URL": _url_of(connection.settings_dict),
        "RFTWEB_WEIGHTS": str(tmp_path / "weights"),
        "RFTWEB_LEASE_SECONDS": "2",
    }
    with transaction.atomic():
        # The worker waits for this lock when it deletes rollouts, and is killed there.
        held = Rollout.objects.filter(run=seeded.run).order_by("pk").first()
        Rollout.objects.select_for_update().get(pk=held.pk)
        process = subprocess.Popen([sys.executable, "-m", "workers.run_removal"], env=environment)
        try:
            eventually(is_blocked_by_a_lock)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    removal.refresh_from_db()
    before = removal.rows_deleted
    assert 0 < before < removal.total and Project.objects.exists()
    RunRemoval.objects.update(lease_until=None)
    ProjectRemoval.objects.update(lease_until=None)
    removal = finish(removal)
    assert removal.state == "done" and removal.done == removal.total > before
    assert not Project.objects.exists()


def test_rating_saved_during_the_deletion_is_deleted_with_the_project(seeded, eventually):
    rollout = Rollout.objects.filter(run=seeded.run).first()
    stars = Stars(rollout.pk, 4, uuid.uuid4())
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            rating = give(seeded.alice, stars)
            deleted = pool.submit(_delete_elsewhere, seeded)
            eventually(is_blocked_by_a_lock)  # the worker waits for the rating
        assert deleted.result(60).state == "done"
    assert not Project.objects.exists() and not Rating.objects.filter(pk=rating.pk).exists()


def _delete_elsewhere(seeded: SimpleNamespace) -> ProjectRemoval:
    try:
        return finish(delete_project(seeded.project, seeded.alice))
    finally:
        connections.close_all()


def test_rating_after_the_deletion_order_gets_404(seeded):
    rollout = Rollout.objects.filter(run=seeded.run).first()
    delete_project(seeded.project, seeded.alice)
    client = Client()
    client.force_login(seeded.alice)
    given = {"stars": 4, "client_uuid": uuid.uuid4()}
    answer = client.post(
        reverse("rate-rollout", args=[rollout.pk]), given, headers={"X-Requested-With": "fetch"}
    )
    assert answer.status_code == 404


def test_run_created_at_the_last_moment_is_deleted_with_the_project(seeded):
    stale = Project.objects.get(pk=seeded.project.pk)  # read before the order, as by a request
    removal = delete_project(seeded.project, seeded.alice)
    Run.create(project=stale, slug="late", title="Late", plan=seeded.run.settings)
    finish(removal)
    assert not Project.objects.exists()


def test_row_added_between_the_last_steps_is_deleted_too(seeded, monkeypatch):
    removal = delete_project(seeded.project, seeded.alice)
    delete_row = projects.delete_project_row
    added = []

    def add_and_delete(pk: int) -> None:
        if not added:
            added.append(Taskset.objects.create(project_id=pk, slug="late", title="Late"))
        delete_row(pk)

    monkeypatch.setattr(projects, "delete_project_row", add_and_delete)
    assert finish(removal).state == "done"
    assert added and not Project.objects.exists()


def test_failed_deletion_of_a_run_is_reported_and_retried_with_the_project(seeded, weights):
    blocked = weights / f"run-{seeded.run.pk}.deleted"
    blocked.with_name(f"run-{seeded.run.pk}").mkdir(parents=True)
    blocked.write_text("a file where the folder should go")
    removal = finish(delete_project(seeded.project, seeded.alice))
    assert removal.state == "failed"
    assert f"Run {seeded.run.slug} could not be deleted. Its files" in removal.reason
    blocked.unlink()
    removal.try_again(seeded.alice)
    assert finish(removal).state == "done" and not Project.objects.exists()


def test_project_with_a_running_run_cannot_be_deleted(seeded):
    Run.objects.filter(pk=seeded.run.pk).update(state="running")
    with pytest.raises(NotDeletable, match="Stop these runs first"):
        delete_project(seeded.project, seeded.alice)
    assert not ProjectRemoval.objects.exists()


def test_contents_of_a_project_are_counted_before_its_deletion(seeded):
    counted = {plural: count for count, _, plural in contents_of(seeded.project).goes}
    assert counted["rollouts"] == Rollout.objects.count() > 0
    assert counted["ratings"] == Rating.objects.count() > 0
    assert (counted["runs"], counted["arenas"], counted["votes"]) == (2, 1, 1)
    assert (counted["episodes"], counted["lessons"], counted["tasks"]) == (1, 1, 40)
