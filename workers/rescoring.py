"""Rescoring: scorers judge stored groups again while no live run's rollouts wait.

A few groups at a time, so that none waits long.
"""

from collections.abc import Callable

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError

from apps.rewards.models import RescoredGroup, Rescoring
from apps.rewards.rescoring.judging import TakenGroups, record_rescoring, take_rescoring_groups
from apps.runs.models import NotPossible
from workers.leases import renewed
from workers.scorer_dispatch import answer_questions

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 8


def rescore(owner: str, say: Callable[[str], object] = str, only: Rescoring | None = None) -> bool:
    """Judge some groups of the oldest open rescoring (or of `only`); return whether there were any.

    An error of ours ends the rescoring with its reason; a database outage is raised, for the caller
    to wait.
    """
    claimed = take_rescoring_groups(owner, settings.LEASE_SECONDS, GROUPS_AT_ONCE, only)
    if claimed is None:
        return False
    say(f"rescoring {len(claimed.items)} groups of {claimed.rescoring.run.slug}")
    try:
        judged = _judge(claimed)
    except (OperationalError, InterfaceError):
        raise
    # the error is stored with the rescoring, and the worker goes on
    except Exception as error:
        log.exception("rescoring_failed", run=claimed.rescoring.run, rescoring=claimed.rescoring.pk)
        _fail(claimed.rescoring, f"{type(error).__name__}: {error}")
    else:
        log.info(
            "groups_rescored",
            run=claimed.rescoring.run,
            rescoring=claimed.rescoring.pk,
            groups=judged,
        )
    return True


def _judge(claimed: TakenGroups) -> int:
    values = claimed.environment_values()
    questions = claimed.questions(values)
    with renewed(lambda: RescoredGroup.objects.renew(claimed.claims, settings.LEASE_SECONDS)):
        answers = answer_questions(claimed.groups, questions, values)
    return record_rescoring(claimed, answers)


def _fail(rescoring: Rescoring, reason: str) -> None:
    try:
        rescoring.fail(reason)
    except NotPossible:
        log.info("rescoring_already_ended", rescoring=rescoring.pk)
