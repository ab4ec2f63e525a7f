"""Schedules at work: a run's due versions are evaluated once each, whoever looks and however often."""

from datetime import timedelta

import structlog
from django.db import IntegrityError
from django.db.models import Q
from django.db.models.functions import Now

from apps.feedback.evaluation.asking import evaluate, plan_of
from apps.runs.config import ConfigError
from apps.runs.costs import used_up
from apps.runs.evaluation import Scheduled, set_of
from apps.runs.models import Run, WeightVersion

AFTER_THE_END = timedelta(hours=1)  # for who died between a run's last version and its evaluation

log = structlog.get_logger(__name__)


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
    versions = list(run.weight_versions.filter(published_at__isnull=False).order_by("version"))
    return sum(_made(run, versions, schedule) for schedule in schedules)


def _made(run: Run, versions: list[WeightVersion], schedule: Scheduled) -> int:
    try:
        asks = set_of(plan_of(run, 0, schedule.asked))
        known = set(Run.objects.filter(evaluates__run=run, evaluation_set=asks).values_list("evaluates__version", flat=True))
        due = [one for one in _due(versions, schedule) if one.state == WeightVersion.State.PUBLISHED and one.version not in known]
        return sum(evaluate(version, schedule.asked)[1] for version in due)
    except (ConfigError, IntegrityError) as wrong:  # the taskset has gone; a folder, or a free name, since it was looked at
        log.warning("not_evaluated", run=run, taskset=schedule.taskset, reason=str(wrong))
        return 0


def _due(versions: list[WeightVersion], schedule: Scheduled) -> list[WeightVersion]:
    before = [0, *(version.step for version in versions)]
    return [one for one, step in zip(versions, before, strict=False) if schedule.is_due(one.version, one.step, step)]
