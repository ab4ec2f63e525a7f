"""The job that sends other jobs when they have work due (0.1 s per test)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Invitation, InvitationMail
from apps.alerts.models import Channel
from apps.policies.models import PolicyImport, PolicyRemoval, TemplatePreview
from apps.runs.models import ExportJob, ProjectRemoval, RunRemoval, after
from apps.tasksets.models import TasksetImport
from workers.control_worker import JOBS
from workers.due_work import find_jobs, find_work

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(run, alice) -> SimpleNamespace:
    version = run.weight_versions.get()
    return SimpleNamespace(project=run.project, run=run, version=version, alice=alice)


def _mail(stage: Any) -> InvitationMail:
    invitation = Invitation.objects.create(
        project=stage.project, role="rater", expires_at=after(3600.0), digest="0" * 64
    )
    return InvitationMail.objects.create(
        invitation=invitation, address="dora@example.org", sealed_link="sealed"
    )


def _delivery(stage: Any) -> Any:
    channel = Channel.objects.create(project=stage.project, kind="email", address="a@example.org")
    return channel.test()


WORK: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a message of an alert": ("deliver_alerts", _delivery),
    "an invitation": ("send_invitations", _mail),
    "a file": (
        "import_tasksets",
        lambda stage: TasksetImport.objects.create(
            project=stage.project, name="a.jsonl", bytes=9, state="waiting"
        ),
    ),
    "an export": (
        "run_exports",
        lambda stage: ExportJob.place(ExportJob.Kind.EXPORT, stage.version, None),
    ),
    "a model": (
        "import_models",
        lambda stage: PolicyImport.objects.create(
            project=stage.project, kind="named", source="smollm2", slug="new", title="New"
        ),
    ),
    "the removal of a model": (
        "import_models",
        lambda stage: PolicyRemoval.objects.create(
            project=stage.project, slug="old", folder="/none"
        ),
    ),
    "a preview": (
        "import_models",
        lambda stage: TemplatePreview.objects.create(
            policy=stage.run.policy, by=stage.alice, messages=[]
        ),
    ),
    "the deletion of a run": (
        "delete_runs",
        lambda stage: RunRemoval.objects.create(project=stage.project, run_number=0, slug="gone"),
    ),
    "the deletion of a project": (
        "delete_runs",
        lambda stage: ProjectRemoval.objects.create(slug="gone"),
    ),
}


@pytest.mark.parametrize("what", WORK)
def test_the_job_of_due_work_is_found(stage, what):
    job, create = WORK[what]
    assert find_jobs() == set()
    create(stage)
    assert find_jobs() == {job}


def test_message_scheduled_for_later_is_not_due_before(stage):
    delivery = _delivery(stage)
    type(delivery).objects.update(due_at=after(60.0))
    assert find_jobs() == set()


def test_all_kinds_of_due_work_are_found_with_one_query(stage):
    for _, create in WORK.values():
        create(stage)
    with CaptureQueriesContext(connection) as statements:
        found = find_jobs()
    assert len(statements) == 1
    assert found == {job for job, _ in WORK.values()}


def test_the_found_jobs_are_sent(stage, monkeypatch):
    sent: list[str] = []
    monkeypatch.setattr("apps.streaming.wakeups.send", sent.append)
    for _, create in WORK.values():
        create(stage)
    sent.clear()
    find_work()
    assert sent == sorted({job for job, _ in WORK.values()})


def test_every_control_job_is_scheduled_or_sent_when_it_has_work_due():
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert scheduled | {job for job, _ in WORK.values()} == JOBS
