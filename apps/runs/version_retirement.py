"""Choice of the weight versions of a run whose folders may be deleted.

The newest few keep theirs, as do milestones, versions that engines serve or runs refer to, and
pinned versions.
"""

from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Mod

from apps.runs.models import Acknowledgement, ExportJob, Run, WeightVersion


def retire_versions(run: Run) -> list[WeightVersion]:
    """Mark old published versions as retired, and return them.

    Their folders may go once this is committed.

    Version 0 is the policy's own folder and never retires. Call it with the run's row locked
    (`Run.fenced`).
    """
    published = run.weight_versions.filter(state=WeightVersion.State.PUBLISHED, version__gt=0)
    newest = published.order_by("-version").values_list("version", flat=True)[
        : run.settings.checkpoints.weights
    ]
    needed = {*newest, *served(run), *referred_to(run), *evaluated(run), *ordered(run)}
    due = list(
        _no_milestones(run, published.filter(pinned_at=None).exclude(version__in=needed)).order_by(
            "version"
        )
    )
    if due:
        # An evaluation's only version lies in the folder of the one that it asked.
        gone = Q(pk__in=[version.pk for version in due]) | Q(run__evaluates__in=due)
        WeightVersion.objects.filter(gone).update(state=WeightVersion.State.RETIRED)
        run.topic.record("weights_retired", versions=[version.version for version in due])
    return due


def _no_milestones(run: Run, versions: QuerySet[WeightVersion]) -> QuerySet[WeightVersion]:
    every = run.settings.checkpoints.milestones
    return versions.annotate(after=Mod("version", every)).exclude(after=0) if every else versions


def served(run: Run) -> set[int]:
    """Return the newest version that each live engine has acknowledged."""
    words = Acknowledgement.objects.filter(
        weight_version__run=run, worker__stopped_at=None
    ).order_by()
    return set(
        words.values("worker")
        .annotate(newest=Max("weight_version__version"))
        .values_list("newest", flat=True)
    )


def referred_to(run: Run) -> set[int]:
    """Return the versions that other runs, not ended, measure themselves against or learn from."""
    others = Run.objects.filter(
        project=run.project_id, config__algorithm__reference__run=run.slug
    ).exclude(state__in=Run.ENDED)
    return set(others.values_list("config__algorithm__reference__version", flat=True))


def evaluated(run: Run) -> set[int]:
    """Return the versions that evaluations, not ended, still ask."""
    asking = Run.objects.filter(evaluates__run=run).exclude(state__in=Run.ENDED)
    return set(asking.values_list("evaluates__version", flat=True))


def ordered(run: Run) -> set[int]:
    """Return the versions that something is being made of."""
    return set(
        run.weight_versions.filter(orders__state__in=ExportJob.OPEN).values_list(
            "version", flat=True
        )
    )
