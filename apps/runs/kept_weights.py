"""Invariants of kept weight versions, exports and branches, for `manage.py reconcile`."""

from collections.abc import Iterator
from pathlib import Path

from apps.runs.models import ExportJob, Run, WeightVersion
from apps.runs.promoting import version_source


def kept_weights_are_there() -> Iterator[str]:
    """Check that pinned versions have their folder, and finished exports theirs."""
    for version in WeightVersion.objects.exclude(pinned_at=None).iterator():
        if not version.has_folder or not Path(version.folder).is_dir():
            yield f"{version}: is pinned, but its folder is missing"
    finished = ExportJob.objects.filter(
        kind=ExportJob.Kind.EXPORT, state=ExportJob.State.DONE
    ).exclude(folder="")
    yield from (
        f"{order}: its folder is not there"
        for order in finished.iterator()
        if not order.path.is_dir()
    )


def branches_start_from_the_named_version() -> Iterator[str]:
    """Check that a branch's policy was made of the version that it names, or is that version's."""
    branches = Run.objects.exclude(branched_from=None).select_related(
        "policy", "branched_from__run__policy"
    )
    for run in branches.order_by("-pk").iterator():
        version = run.branched_from
        assert version is not None  # runs without one are left out
        if run.policy.source != version_source(version) and not (
            version.version == 0 and run.policy_id == version.run.policy_id
        ):
            yield (f"{run}: names {version} as its start, but begins with policy {run.policy.slug}")
