"""Which weight versions of a run need no folder any more: the newest few and what engines serve keep theirs."""

from django.db.models import Max

from apps.runs.models import Acknowledgement, Run, WeightVersion


def retire(run: Run) -> list[WeightVersion]:
    """Say that all older published versions are retired; returns them. Their folders may go once this is committed.

    Version 0 is the policy's own folder and never retires, nor does the reference model. Call it with the run's row
    locked (`Run.fenced`).
    """
    published = run.weight_versions.filter(state=WeightVersion.State.PUBLISHED, version__gt=0)
    newest = published.order_by("-version").values_list("version", flat=True)[: run.settings.checkpoints.weights]
    due = list(published.exclude(version__in={*newest, *served(run), run.settings.algorithm.reference.version}).order_by("version"))
    if due:
        run.weight_versions.filter(pk__in=[version.pk for version in due]).update(state=WeightVersion.State.RETIRED)
        run.topic.record("weights_retired", versions=[version.version for version in due])
    return due


def served(run: Run) -> set[int]:
    """The newest version that each live engine has acknowledged."""
    words = Acknowledgement.objects.filter(weight_version__run=run, worker__stopped_at=None).order_by()
    return set(words.values("worker").annotate(newest=Max("weight_version__version")).values_list("newest", flat=True))
