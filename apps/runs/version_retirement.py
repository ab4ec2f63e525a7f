"""Choice of the weight versions of a run whose folders may be deleted.

The newest few keep theirs, as do milestones, versions that engines serve or runs refer to, and
pinned versions.
"""

from typing import Any

from django.db.models import ExpressionWrapper, IntegerField, Max, Q, QuerySet
from django.db.models.functions import Mod

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.accounts.locking import lock_rows
from apps.runs.models import Acknowledgement, ExportJob, Run, WeightVersion

NEVER = 2**31 - 1  # no version is a multiple of it


def retire_versions(run: Run) -> list[WeightVersion]:
    """Mark old published versions as retired, and return them.

    Their folders may go once this is committed.

    Version 0 is the policy's own folder and never retires. Call it with the run's row locked
    (`Run.fenced`).
    """
    published = run.weight_versions.filter(state=WeightVersion.State.PUBLISHED, version__gt=0)
    newest = published.order_by("-version").values_list("version", flat=True)
    checkpoints = run.settings.checkpoints
    needed = {*newest[: checkpoints.weights], *served(run), *referred_to(run)}
    needed |= {*evaluated(run), *ordered(run)}
    retirable = _retirable_versions(run.pk, list(needed), checkpoints.milestones or NEVER)
    if retirable:
        # Somebody may pin one at this moment, which is seen once its row is locked.
        chosen = published.filter(pk__in=[version.pk for version in retirable], pinned_at=None)
        retirable = lock_rows(chosen)
    if retirable:
        # An evaluation's only version lies in the folder of the one that it asked.
        retiring = Q(pk__in=[version.pk for version in retirable]) | Q(run__evaluates__in=retirable)
        WeightVersion.objects.filter(retiring).update(state=WeightVersion.State.RETIRED)
        run.topic.record("weights_retired", versions=[version.version for version in retirable])
    return retirable


def served(run: Run) -> set[int]:
    """Return the newest version that each live engine has acknowledged."""
    return set(_served(run.pk))


def referred_to(run: Run) -> set[int]:
    """Return the versions that other runs, not ended, measure themselves against or learn from."""
    other_runs = Run.objects.filter(
        project=run.project_id, config__algorithm__reference__run=run.slug
    ).exclude(state__in=Run.ENDED)
    return set(other_runs.values_list("config__algorithm__reference__version", flat=True))


def evaluated(run: Run) -> set[int]:
    """Return the versions that evaluations, not ended, still ask."""
    return set(_evaluated(run.pk))


def ordered(run: Run) -> set[int]:
    """Return the versions that something is being made of."""
    return set(_versions_in_order(run.pk))


# -- their statements, which run at each publication


@compiled_query
def _served(run: int) -> QuerySet[Acknowledgement, int]:
    words = Acknowledgement.objects.filter(weight_version__run=run, worker__stopped_at=None)
    newest = words.order_by().values("worker").annotate(newest=Max("weight_version__version"))
    return newest.values_list("newest", flat=True)


@compiled_query
def _evaluated(run: int) -> QuerySet[Run, int]:
    asking = Run.objects.filter(evaluates__run=run).exclude(state__in=Run.ENDED)
    return asking.values_list("evaluates__version", flat=True)


@compiled_query
def _versions_in_order(run: int) -> QuerySet[WeightVersion, int]:
    versions = WeightVersion.objects.filter(run=run, orders__state__in=ExportJob.OPEN)
    return versions.values_list("version", flat=True)


@compiled_query
def _retirable_versions(run: int, needed: list[int], every: int) -> QuerySet[WeightVersion]:
    """Return the published versions that are neither needed, pinned nor each `every`th one."""
    published = WeightVersion.objects.filter(run=run, state=WeightVersion.State.PUBLISHED)
    not_needed = published.filter(~EqualsAny("version", needed), version__gt=0, pinned_at=None)
    divisor: Any = every  # the place of one: a number is no expression
    after = Mod("version", ExpressionWrapper(divisor, IntegerField()))
    return not_needed.annotate(after=after).exclude(after=0).order_by("version")
