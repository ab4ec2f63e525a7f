"""Deleting a run removes all its rows and files, and nothing that others share.

A deletion whose worker was killed is continued.
"""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, User
from apps.dashboard.reconciliation import reconcile
from apps.evaluation.models import Arena, Contestant
from apps.feedback.models import Demonstration, Preference
from apps.policies.models import Policy
from apps.rollouts.models import Group, Rollout
from apps.runs.deleting import NotDeletable, contents_of, delete_runs, reasons_against
from apps.runs.models import ExportJob, Run, RunRemoval, Usage, UsageTotal
from apps.streaming.models import Event, Topic
from apps.tasksets.models import Task
from tests.browser.conftest import _url_of
from tests.keeping import Kept
from workers.run_removal import removing, rows
from workers.run_removal.removing import remove_next

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def weights(settings, tmp_path) -> Path:
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    return settings.WEIGHTS_ROOT


@pytest.fixture
def seeded(transactional_db, kept_run: Kept) -> SimpleNamespace:
    """Return a stopped run with ratings, rewards, steps and weights, and its owner alice."""
    kept_run.put_back()
    run = Run.objects.get()
    run.stop()
    Group.objects.close_ended()
    return SimpleNamespace(run=run, alice=User.objects.get(username="alice"))


def delete(seeded: SimpleNamespace) -> RunRemoval:
    [removal] = delete_runs([seeded.run], seeded.alice)
    return removal


def counts() -> dict[str, int]:
    return {table.__name__: table.objects.count() for table in rows.tables_of_runs()}


def test_deleting_a_run_removes_all_its_rows_and_keeps_tasks_and_model(seeded):
    tasks = Task.objects.count()
    assert len([name for name, count in counts().items() if count]) > 15
    removal = delete(seeded)
    assert Run.objects.get().state == "deleting"
    assert remove_next("worker")
    removal.refresh_from_db()
    assert (removal.state, removal.done, removal.share) == ("done", removal.total, 1.0)
    assert {name: count for name, count in counts().items() if count} == {}
    assert not Run.objects.exists() and not Topic.objects.exists() and not Event.objects.exists()
    assert Task.objects.count() == tasks and Policy.objects.exists()
    assert not any(reconcile().values())


def test_the_audit_log_keeps_who_deleted_the_run(seeded):
    address = seeded.run.address
    delete(seeded)
    remove_next("worker")
    entries = AuditEntry.objects.filter(target=address, action__contains="delet").order_by("pk")
    assert [(entry.action, entry.name) for entry in entries] == [
        ("run deletion ordered", "alice"),
        ("run deleted", "alice"),
    ]
    assert entries[1].details["rows"] > 100


def test_deleting_a_run_removes_its_weights_and_exports_and_no_other_folder(seeded, weights):
    order = ExportJob.objects.create(
        weight_version=seeded.run.weight_versions.first(), kind="export", state="done"
    )
    gone = [weights / f"run-{seeded.run.pk}" / "v000001-f1", weights / "exports" / str(order.pk)]
    stays = weights / "policies" / "lab-tone"
    for folder in (*gone, stays):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"x" * 1000)
    removal = delete(seeded)
    remove_next("worker")
    removal.refresh_from_db()
    assert removal.bytes == 2000
    assert [path.name for path in weights.rglob("*") if path.is_file()] == ["model.safetensors"]
    assert (stays / "model.safetensors").exists()


def test_files_left_by_a_killed_worker_are_removed(seeded, weights):
    half = weights / f"run-{seeded.run.pk}.deleted"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"x")
    delete(seeded)
    remove_next("worker")
    assert not half.exists()


def test_demonstrations_and_preferences_of_a_deleted_run_are_kept(seeded):
    run = seeded.run
    first, second = run.rollouts.all()[:2]
    of_run = {"project": run.project, "run": run, "prompt": [], "source": "the page"}
    Demonstration.objects.create(**of_run, answer="Hello.", key="a")
    Preference.objects.create(
        **of_run, chosen="a", rejected="b", chosen_rollout=first, rejected_rollout=second, key="b"
    )
    delete(seeded)
    remove_next("worker")
    assert Demonstration.objects.get().run_id is None
    kept = Preference.objects.get()
    assert (kept.run_id, kept.chosen_rollout_id, kept.rejected_rollout_id) == (None, None, None)


def test_evaluations_of_a_runs_weights_are_deleted_before_it(seeded):
    run = seeded.run
    version = run.weight_versions.get(version=0)
    asking = Run.create(project=run.project, slug="asking", title="Asking", plan=run.settings)
    Run.objects.filter(pk=asking.pk).update(is_evaluation=True, evaluates=version)
    removals = delete_runs([run], seeded.alice)
    assert [removal.slug for removal in removals] == ["asking", run.slug]
    while remove_next("worker"):
        pass
    assert not Run.objects.exists()


def test_costs_of_a_deleted_evaluation_stay_in_the_total(seeded):
    run = seeded.run
    asking = Run.create(project=run.project, slug="asking", title="Asking", plan=run.settings)
    version = run.weight_versions.get(version=0)
    Run.objects.filter(pk=asking.pk).update(is_evaluation=True, evaluates=version)
    Usage.objects.create(run=asking, kind="gpu_seconds", hour=run.created_at, amount=7.0)
    delete_runs([asking], seeded.alice)
    remove_next("worker")
    assert UsageTotal.objects.get(run=run, kind="gpu_seconds").evaluations == 7.0
    assert reconcile()["usage totals match their hours"] == []


def test_a_deletion_waits_for_workers_that_hold_its_groups(seeded):
    removal = delete(seeded)
    Group.objects.filter(run=seeded.run).update(lease_until=Now() + timedelta(seconds=60))
    remove_next("worker")
    removal.refresh_from_db()
    assert (removal.state, removal.reason) == (
        "waiting",
        "Waiting for workers to give its groups back.",
    )
    assert not RunRemoval.objects.due().exists()  # for a few seconds
    Group.objects.update(lease_until=None)
    RunRemoval.objects.update(lease_until=None)
    remove_next("worker")
    removal.refresh_from_db()
    assert (removal.state, removal.reason) == ("done", "")


def test_files_that_cannot_be_deleted_are_reported_and_deletion_can_be_retried(
    seeded, weights, monkeypatch
):
    folder = weights / f"run-{seeded.run.pk}"
    folder.mkdir(parents=True)
    folder.with_name(f"{folder.name}.deleted").write_text("a file where the folder should go")
    removal = delete(seeded)
    remove_next("worker")
    removal.refresh_from_db()
    assert removal.state == "failed" and removal.reason.startswith("Its files could not be deleted")
    folder.with_name(f"{folder.name}.deleted").unlink()
    removal.try_again(seeded.alice)
    remove_next("worker")
    assert not Run.objects.exists() and not folder.exists()


def test_killed_deletion_is_continued_and_blocks_nobody(seeded, eventually, tmp_path):
    other = Run.create(
        project=seeded.run.project, slug="other", title="Other", plan=seeded.run.settings
    )
    other.start()
    removal = delete(seeded)
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
            Group.open(other, "explorer", 60, 1, 0)  # other runs continue
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    removal.refresh_from_db()
    assert 0 < removal.done < removal.total and Run.objects.filter(pk=seeded.run.pk).exists()
    done = removal.done
    RunRemoval.objects.update(lease_until=None)
    assert remove_next("another worker")
    removal.refresh_from_db()
    assert removal.state == "done" and removal.done == removal.total > done
    assert [run.slug for run in Run.objects.all()] == ["other"]
    assert other.groups.count() == 1
    assert not any(reconcile().values())


def is_blocked_by_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()"
        )
        return cursor.fetchone()[0] > 0


@pytest.mark.parametrize("state", ["running", "paused"])
def test_active_run_cannot_be_deleted(seeded, state):
    Run.objects.update(state=state)
    with pytest.raises(NotDeletable, match="Stop it first"):
        delete_runs([Run.objects.get()], seeded.alice)
    assert not RunRemoval.objects.exists()


def test_run_that_others_need_cannot_be_deleted_and_they_are_named(seeded):
    run = seeded.run
    Arena.objects.create(project=run.project, taskset=run.taskset, title="A", tasks=1, samples=1)
    Contestant.objects.create(arena=Arena.objects.get(), run=run, place=0)
    other = Run.create(project=run.project, slug="other", title="Other", plan=run.settings)
    config = {**other.config, "rewards": [{"scorer": f"model:{run.slug}@3"}]}
    Run.objects.filter(pk=other.pk).update(config=config)
    reasons = " ".join(reasons_against(run))
    assert "Its weights are used by other." in reasons and "An arena compares" in reasons
    with pytest.raises(NotDeletable):
        delete_runs([run], seeded.alice)


def test_contents_of_a_run_are_counted_before_its_deletion(seeded):
    contents = contents_of(seeded.run)
    counted = {plural: count for count, _, plural in contents.goes}
    assert counted["rollouts"] == Rollout.objects.count() > 0
    assert counted["ratings"] == seeded.run.ratings.count() > 0
    Run.objects.update(step=F("step"))  # counting changed nothing
    assert Run.objects.get().state == "stopped"


def test_locked_rows_make_the_deletion_wait_instead_of_failing(seeded, monkeypatch):
    removal = delete(seeded)
    monkeypatch.setattr(removing, "_remove_rows", _raise_lock_timeout)
    remove_next("worker")
    removal.refresh_from_db()
    assert (removal.state, removal.reason) == ("waiting", "Its rows are locked by other work.")


def _raise_lock_timeout(*_: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'locked' USING ERRCODE = '55P03'; END $$")
