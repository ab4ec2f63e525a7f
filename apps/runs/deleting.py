"""Deletion of runs: what prevents it, what goes and what stays, and the order to a worker.

A run whose deletion is confirmed is at once out of reach for people and workers (state
`deleting`); its rows and files go afterwards, in small transactions (workers.run_removal).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet, Sum

from apps.accounts.locking import lock_rows, unit_of_work
from apps.accounts.models import Project, User
from apps.runs.models import ExportJob, NotPossible, Run, RunRemoval, WeightVersion
from apps.streaming import wakeups

JOB = "delete_runs"
NAMED = 3  # runs named in one reason


@dataclass(frozen=True)
class Contents:
    """What the deletion of a run takes, and what it leaves; each as (count, noun, plural)."""

    goes: tuple[tuple[int, str, str], ...]
    stays: tuple[tuple[int, str, str], ...]
    bytes: int


class NotDeletable(NotPossible):
    """Raised for runs that cannot be deleted; the message says what prevents it."""


def evaluations_of(run: Run) -> QuerySet[Run]:
    """Return the evaluations of the run's weight versions, which are deleted with it."""
    return Run.objects.filter(evaluates__run=run).exclude(pk=run.pk)


def reasons_against(run: Run, also_deleted: Iterable[int] = ()) -> list[str]:
    """Return what prevents the deletion, as sentences; empty if nothing does.

    `also_deleted`: ids of runs that are deleted at the same time, which prevent nothing.
    """
    deleted_ids = {run.pk, *also_deleted, *evaluations_of(run).values_list("pk", flat=True)}
    return [*_own_reasons(run), *_reasons_of_others(run, deleted_ids)]


def _own_reasons(run: Run) -> Iterator[str]:
    if run.state in (Run.State.RUNNING, Run.State.PAUSED):
        yield f"{run.slug} is {run.get_state_display()}. Stop it first."
    if run.state == Run.State.DELETING:
        yield f"{run.slug} is being deleted already."
    if ExportJob.objects.open().filter(weight_version__run=run).exists():
        yield f"An export or a copy of a weight version of {run.slug} is being made. Wait for it."
    if run.rescorings.open().exists():
        yield f"{run.slug} is being rescored. Wait for it, or stop it."
    for evaluation in evaluations_of(run).filter(state__in=(Run.State.RUNNING, Run.State.PAUSED))[
        :NAMED
    ]:
        yield f"Its evaluation {evaluation.slug} has not ended. Stop it first."


def _reasons_of_others(run: Run, deleted_ids: set[int]) -> Iterator[str]:
    other_runs = Run.objects.filter(project=run.project_id).exclude(pk__in=deleted_ids)
    alive = other_runs.exclude(state__in=Run.ENDED)
    users = {
        *run.groups.filter(replays__isnull=False).values_list("replays__run", flat=True).distinct(),
        *run.groups.filter(seeded__isnull=False).values_list("seeded__run", flat=True).distinct(),
        *alive.filter(config__replay__run=run.slug).values_list("pk", flat=True),
    }
    if names := _names(other_runs.filter(pk__in=users)):
        yield f"Its rollouts are used by {names}. Delete that first."
    if names := _names(
        alive.filter(pk__in=[live_run.pk for live_run in alive if _uses_weights(live_run, run)])
    ):
        yield f"Its weights are used by {names}. Stop that first."
    if names := _names(Run.objects.filter(pk__in=deleted_ids, contests__isnull=False)):
        yield f"An arena compares replies of {names}, and keeps people’s votes about them."


def _uses_weights(using_run: Run, run: Run) -> bool:
    """Tell whether another run measures itself against this one, or is scored by its model."""
    scorers = {
        choice["scorer"].partition("@")[0] for choice in using_run.config.get("rewards") or ()
    }
    reference = using_run.config["algorithm"].get("reference") or {}
    return reference.get("run") == run.slug or f"model:{run.slug}" in scorers


def _names(runs: QuerySet[Run]) -> str:
    """Return the slugs of the first few runs, and how many more there are; "" for none."""
    slugs = list(runs.order_by("slug").values_list("slug", flat=True).distinct()[: NAMED + 1])
    listed_slugs = ", ".join(slugs[:NAMED])
    return f"{listed_slugs} and others" if len(slugs) > NAMED else listed_slugs


def contents_of(run: Run) -> Contents:
    """Count what a deletion removes and what it keeps."""
    evaluations = evaluations_of(run)
    orders = ExportJob.objects.filter(weight_version__run=run)
    exported = orders.exclude(folder="")
    lessons = sum(rows.count() for rows in (run.demonstrations, run.preferences, run.thumbs))
    models_made = orders.exclude(policy=None).values("policy").distinct().count()
    published = run.weight_versions.filter(version__gt=0, state=WeightVersion.State.PUBLISHED)
    total = published.aggregate(bytes=Sum("bytes"))["bytes"] or 0
    total += exported.aggregate(bytes=Sum("bytes"))["bytes"] or 0
    return Contents(
        goes=(
            (run.step, "training step", "training steps"),
            (run.groups.count(), "group", "groups"),
            (run.rollouts.count(), "rollout", "rollouts"),
            (run.ratings.count(), "rating", "ratings"),
            (published.count(), "weight version", "weight versions"),
            (exported.count(), "export", "exports"),
            (evaluations.count(), "evaluation of its weights", "evaluations of its weights"),
        ),
        stays=(
            (len(run.taskset_ids), "taskset", "tasksets"),
            (models_made, "model made from its weights", "models made from its weights"),
            (lessons, "lesson from its rollouts", "lessons from its rollouts"),
            (
                Run.objects.filter(branched_from__run=run).count(),
                "run that continues from it",
                "runs that continue from it",
            ),
        ),
        bytes=total,
    )


@unit_of_work
def delete_runs(runs: Iterable[Run], by: User | None) -> list[RunRemoval]:
    """Order the deletion of the runs and of the evaluations of their weights: all or none.

    Raises NotDeletable with the reasons.
    """
    run_ids = {run.pk for run in runs}
    evaluations = Run.objects.filter(evaluates__run__in=run_ids).exclude(state=Run.State.DELETING)
    keys = run_ids | set(evaluations.values_list("pk", flat=True))
    # Locked: nobody starts, evaluates or branches from them until this transaction ends.
    locked = lock_rows(Run.objects.select_related("project", "topic").filter(pk__in=keys))
    against = [reason for run in locked for reason in reasons_against(run, keys)]
    if against:
        raise NotDeletable(" ".join(dict.fromkeys(against)))
    # The worker takes the oldest first: who refers to another run goes before it.
    locked.sort(key=lambda run: (not run.is_evaluation, -run.pk))
    removals = [_order_removal(run, by) for run in locked]
    transaction.on_commit(lambda: wakeups.send(JOB), robust=True)
    return removals


@unit_of_work
def delete_with_project(project: Project, by: User | None, at_once: int) -> int:
    """Order the deletion of runs of a project that is being deleted; return how many these are.

    At most `at_once`, the newest first, because who refers to another run is newer. Raises
    NotDeletable.
    """
    newest_first = Run.objects.kept().filter(project=project).order_by("-pk")[:at_once]
    newest = list(newest_first.values_list("pk", flat=True))
    locked = lock_rows(Run.objects.select_related("project", "topic").filter(pk__in=newest))
    if against := [reason for run in locked for reason in _own_reasons(run)]:
        raise NotDeletable(" ".join(against[:NAMED]))
    for run in reversed(locked):
        _order_removal(run, by)
    return len(locked)


def _order_removal(run: Run, by: User | None) -> RunRemoval:
    run.begin_deletion(by)
    return RunRemoval.objects.create(
        project=run.project, run=run, run_number=run.pk, slug=run.slug, by=by
    )
