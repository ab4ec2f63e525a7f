"""Decide from database rows which runs a trainer can work on now, before any model is loaded.

A few statements cover all runs; only runs with enough ready groups are examined one by one.
"""

from collections.abc import Sequence

from django.db.models import Count, Min

from apps.accounts.locking import lock_one, unit_of_work
from apps.buffer.models import Experience, experts_missing, replays
from apps.buffer.models.reading import IN_MACHINES_HANDS, next_groups
from apps.feedback import experts
from apps.pipelines import offspring
from apps.rollouts.models import Group
from apps.runs.admission import oldest_allowed
from apps.runs.models import Run, TrainStep, WeightVersion
from workers.trainer import metrics

UNOFFERED = (
    WeightVersion.State.STAGED,
    WeightVersion.State.VERIFIED,
    WeightVersion.State.REFUSED,
)


def list_runs_to_train(runs: Sequence[Run]) -> set[int]:
    """Return ids of runs with a step, or other work that needs their trainer, to do now.

    Also retires groups over the staleness bound: nothing else would, and they block new ones.
    """
    run_ids = [run.pk for run in runs]
    if not run_ids:
        return set()
    steps = TrainStep.objects.filter(run__in=run_ids, state=TrainStep.State.PLANNED)
    begun = set(steps.values_list("run", flat=True)) | _unoffered(run_ids)
    ready = _ready_groups(run_ids)
    return begun | {run.pk for run in runs if _is_due(run, *ready.get(run.pk, (0, 0)))}


def soon_among(runs: Sequence[Run]) -> set[int]:
    """Return ids of the runs whose groups are being sampled or scored: a step will follow."""
    working = Group.objects.filter(run__in=[run.pk for run in runs], state__in=IN_MACHINES_HANDS)
    return set(working.order_by().values_list("run", flat=True).distinct())


def _unoffered(run_ids: Sequence[int]) -> set[int]:
    """Return the runs with a staged but unpublished version: their trainer died in between."""
    versions = WeightVersion.objects.filter(run__in=run_ids, state__in=UNOFFERED)
    newest = versions.values_list("run", "version", "run__published_version")
    return {run for run, version, published in newest if version > published}


def _ready_groups(run_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return for each run how many groups are ready, and the oldest weight version among them."""
    ready = Experience.objects.usual().filter(run__in=run_ids, state=Experience.State.READY)
    counted = (
        ready.order_by()
        .values("run")
        .annotate(groups=Count("group", distinct=True), oldest=Min("weight_version"))
    )
    return {row["run"]: (row["groups"], row["oldest"]) for row in counted}


def _is_due(run: Run, groups: int, oldest: int) -> bool:
    plan = run.settings
    if run.step >= run.planned_steps:
        return True  # the run must be completed
    if plan.algorithm.learns_from_lessons:
        return True  # its lessons existed before it began
    if not plan.samples:
        return not replays.is_copied(run) or not replays.still_refined(run)
    version = run.step // plan.sync_interval
    if groups and oldest < oldest_allowed(version, plan.max_staleness):
        groups -= _retire(run)
    if groups < plan.groups_per_step - plan.groups_again_per_step or not next_groups(run):
        return False
    return not experts_missing(run) or has_experts_to_admit(run)


@unit_of_work
def _retire(run: Run) -> int:
    """Retire the run's groups over the staleness bound, and return their number.

    No fence is needed: a trainer that plans a step locks the same row, and takes only ready
    groups.
    """
    locked = lock_one(Run.objects.filter(pk=run.pk))
    version = locked.step // locked.settings.sync_interval
    return Experience.objects.retire_stale(locked, version)


def has_experts_to_admit(run: Run) -> bool:
    """Tell whether experts' answers wait that the next step could take once tokenized."""
    return (
        experts.list_unadmitted_demonstrations(run).exists()
        or offspring.not_yet_admitted(run).exists()
    )


def describe_waiting(run: Run) -> str:
    """Describe what a run that is not due waits for."""
    return metrics.describe_missing_groups(run) if run.settings.samples else cause_of_replay(run)


def cause_of_replay(run: Run) -> str:
    groups = replays.still_refined(run)
    if not groups:
        return "nothing: the data is recorded"
    return f"{groups} recorded group{'s' if groups != 1 else ''} to be processed"
