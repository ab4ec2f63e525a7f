"""Evaluation schedules: add and remove them, and evaluate each due version once."""

from datetime import timedelta

import structlog
from django.db import IntegrityError
from django.db.models import Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.evaluation.asking import evaluation_plan, start_evaluation
from apps.runs.config import ConfigError
from apps.runs.costs import used_up
from apps.runs.evaluation import Scheduled, evaluation_key
from apps.runs.models import Run, WeightVersion

# Allows for a crash between a run's last version and its evaluation.
AFTER_THE_END = timedelta(hours=1)

log = structlog.get_logger(__name__)


@unit_of_work
def add_schedule(run: Run, scheduled: Scheduled, by: User | None = None) -> None:
    """Add a schedule; concurrent additions are kept. Raises ConfigError."""
    schedules = _lock_schedules(run)
    if scheduled in schedules:
        raise ConfigError({"schedule": "already has this schedule"})
    run.change_config(by, evaluations=_as_documents([*schedules, scheduled]))


@unit_of_work
def remove_schedule(run: Run, key: str, by: User | None = None) -> None:
    """Remove the schedule of this `key`; its evaluations stay. Raises ConfigError if it is gone."""
    schedules = _lock_schedules(run)
    remaining = [schedule for schedule in schedules if schedule.key != key]
    if len(remaining) == len(schedules):
        raise ConfigError({"schedule": "the schedule no longer exists"})
    run.change_config(by, evaluations=_as_documents(remaining))


def _lock_schedules(run: Run) -> tuple[Scheduled, ...]:
    return Run.locked(run.pk).settings.evaluations


def _as_documents(schedules: list[Scheduled]) -> list[dict]:
    return [schedule.model_dump(mode="json") for schedule in schedules]


def keep_up_all() -> int:
    """Start due evaluations of all active or recently completed runs with schedules.

    Returns how many evaluations were created.
    """
    just_ended = Q(state=Run.State.COMPLETED, ended_at__gt=Now() - AFTER_THE_END)
    runs = Run.objects.filter(
        just_ended | Q(state__in=(Run.State.RUNNING, Run.State.PAUSED)), is_evaluation=False
    )
    return sum(
        evaluate_due_versions(run) for run in runs.filter(config__evaluations__0__isnull=False)
    )


def evaluate_due_versions(run: Run) -> int:
    """Evaluate the run's due versions whose folders are kept and that were not evaluated this way.

    An evaluation that was stopped is not repeated. While the budget is used up nothing is started;
    due versions are evaluated once it is raised.
    """
    schedules = run.settings.evaluations
    if not schedules or used_up(run):
        return 0
    return sum(_start_due(run, schedule) for schedule in schedules)


def _start_due(run: Run, schedule: Scheduled) -> int:
    try:
        versions = _due_versions(
            run, schedule, evaluation_key(evaluation_plan(run, 0, schedule.questions))
        )
        return sum(start_evaluation(version, schedule.questions)[1] for version in versions)
    except (
        ConfigError,
        IntegrityError,
    ) as wrong:
        # The taskset, a folder or a free name was lost since it was checked.
        log.warning("evaluation_not_created", run=run, taskset=schedule.taskset, reason=str(wrong))
        return 0


def _due_versions(run: Run, schedule: Scheduled, asks: str) -> list[WeightVersion]:
    """Return the due versions with kept folders and without this evaluation, filtered in SQL.

    A run may have published many thousands.
    """
    published = run.weight_versions.filter(published_at__isnull=False)
    before = (
        published.filter(version__lt=OuterRef("version")).order_by("-version").values("step")[:1]
    )
    evaluated = Run.objects.filter(evaluates=OuterRef("pk"), evaluation_set=asks)
    unevaluated = published.filter(~Exists(evaluated), state=WeightVersion.State.PUBLISHED)
    with_step_before = unevaluated.annotate(step_before=Coalesce(Subquery(before), 0)).order_by(
        "version"
    )
    return [
        version
        for version in with_step_before
        if schedule.is_due(version.version, version.step, version.step_before)
    ]
