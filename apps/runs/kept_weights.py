"""Ledger of what is made of weight versions: what somebody wants kept is there, and branches begin with what they name."""

from collections.abc import Iterator
from pathlib import Path

from apps.runs.models import Run, WeightOrder, WeightVersion
from apps.runs.promoting import source_of


def kept_weights_are_there() -> Iterator[str]:
    """A pinned version has its folder; of an export that is done, the folder is there until somebody deletes it."""
    for version in WeightVersion.objects.exclude(pinned_at=None).iterator():
        if not version.has_folder or not Path(version.folder).is_dir():
            yield f"{version}: is kept by wish, and its folder is not there"
    done = WeightOrder.objects.filter(kind=WeightOrder.Kind.EXPORT, state=WeightOrder.State.DONE).exclude(folder="")
    yield from (f"{order}: its folder is not there" for order in done.iterator() if not order.path.is_dir())


def branches_begin_with_what_they_name() -> Iterator[str]:
    """A branch's policy was made of the version that it names, or is that version's own."""
    branches = Run.objects.exclude(branched_from=None).select_related("policy", "branched_from__run__policy")
    for run in branches.order_by("-pk").iterator():
        version = run.branched_from
        if run.policy.source != source_of(version) and not (version.version == 0 and run.policy_id == version.run.policy_id):
            yield f"{run}: says it went on from {version}, and begins with policy {run.policy.slug}"
