"""Schedules: added and removed by people, and at work: due versions are evaluated once each, however often one looks."""

from datetime import timedelta

import structlog
from django.db import IntegrityError
from django.db.models import Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.feedback.evaluation.asking import evaluate, plan_of
from apps.runs.config import ConfigError
from apps.runs.costs import used_up
from apps.runs.evaluation import Scheduled, set_of
from apps.runs.models import Run, WeightVersion

AFTER_THE_END = timedelta(hours=1)  # for who died between a run's last version and its evaluation

log = structlog.get_logger(__name__)


@unit_of_work
def add(run: Run, scheduled: Scheduled, by: User | None = None) -> None:
    """One more schedule, beside those that others add meanwhile. Raises ConfigError."""
    kept = _locked(run)
    if scheduled in kept:
        raise ConfigError({"schedule": "is there already"})
    run.change_config(by, evaluations=_written([*kept, scheduled]))


@unit_of_work
def remove(run: Run, key: str, by: User | None = None) -> None:
    """The schedule of this `key` goes; what it made stays. Raises ConfigError where it has gone."""
    kept = _locked(run)
    left = [one for one in kept if one.key != key]
    if len(left) == len(kept):
        raise ConfigError({"schedule": "it is there no longer"})
    run.change_config(by, evaluations=_written(left))


def _locked(run: Run) -> tuple[Scheduled, ...]:
    return Run.locked(run.pk).settings.evaluations


def _written(schedules: list[Scheduled]) -> list[dict]:
    return [one.model_dump(mode="json") for one in schedules]


def keep_up_all() -> int:
    """Of all runs that have schedules and are under way, or were until just now. Returns how many evaluations were made."""
    just_ended = Q(state=Run.State.COMPLETED, ended_at__gt=Now() - AFTER_THE_END)
    runs = Run.objects.filter(just_ended | Q(state__in=(Run.State.RUNNING, Run.State.PAUSED)), is_evaluation=False)
    return sum(keep_up(run) for run in runs.filter(config__evaluations__0__isnull=False))


def keep_up(run: Run) -> int:
    """Evaluate the run's due versions whose folders are kept and that were not asked this; one that was stopped stays so.

    While its budget is used up nothing begins: what is due then begins once that is raised.
    """
    schedules = run.settings.evaluations
    if not schedules or used_up(run):
        return 0
    return sum(_made(run, schedule) for schedule in schedules)


def _made(run: Run, schedule: Scheduled) -> int:
    try:
        due = _due(run, schedule, set_of(plan_of(run, 0, schedule.asked)))
        return sum(evaluate(version, schedule.asked)[1] for version in due)
    except (ConfigError, IntegrityError) as wrong:  # the taskset has gone; a folder, or a free name, since it was looked at
        log.warning("not_evaluated", run=run, taskset=schedule.taskset, reason=str(wrong))
        return 0


def _due(run: Run, schedule: Scheduled, asks: str) -> list[WeightVersion]:
    """Of the versions whose folders are kept, those alone that were not asked this: a run may have published many thousands."""
    published = run.weight_versions.filter(published_at__isnull=False)
    before = published.filter(version__lt=OuterRef("version")).order_by("-version").values("step")[:1]
    asked = Run.objects.filter(evaluates=OuterRef("pk"), evaluation_set=asks)
    kept = published.filter(~Exists(asked), state=WeightVersion.State.PUBLISHED)
    found = kept.annotate(step_before=Coalesce(Subquery(before), 0)).order_by("version")
    return [one for one in found if schedule.is_due(one.version, one.step, one.step_before)]
