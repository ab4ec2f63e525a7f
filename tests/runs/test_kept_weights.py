"""The ledger checks pinned versions, exports and branches."""

from django.utils import timezone

from apps.dashboard.reconciliation import reconcile
from apps.policies.models import Policy
from apps.runs.models import ExportJob, Run

KEPT = "kept weights are there"
BRANCHES = "branches start from the named version"


def test_ledger_reports_a_pinned_version_without_its_folder(run, tmp_path):
    version = run.weight_versions.get()
    run.weight_versions.update(pinned_at=timezone.now(), folder=str(tmp_path))
    assert reconcile()[KEPT] == []
    run.weight_versions.update(folder=str(tmp_path / "gone"))
    assert reconcile()[KEPT] == [f"{version}: is pinned, but its folder is missing"]


def test_ledger_reports_a_vanished_export_but_not_a_deleted_one(run, tmp_path):
    version = run.weight_versions.get()
    order = ExportJob.objects.create(
        weight_version=version, kind="export", state="done", folder=str(tmp_path / "gone")
    )
    assert reconcile()[KEPT] == [f"{order}: its folder is not there"]
    order.drop_folder()
    assert reconcile()[KEPT] == []


def test_ledger_reports_a_branch_that_starts_from_other_weights_than_it_names(run, new_run):
    branch = new_run()
    version = run.weight_versions.create(version=1, state="published", folder="/nowhere")
    Run.objects.filter(pk=branch.pk).update(branched_from=version)
    assert reconcile()[BRANCHES] == [
        f"{branch}: names {version} as its start, but begins with policy tiny"
    ]
    Policy.objects.filter(pk=branch.policy_id).update(source=f"{run.slug}@1")
    assert reconcile()[BRANCHES] == []


def test_branch_of_version_0_begins_with_the_same_policy(run, new_run):
    Run.objects.filter(pk=new_run().pk).update(branched_from=run.weight_versions.get())
    assert reconcile()[BRANCHES] == []
