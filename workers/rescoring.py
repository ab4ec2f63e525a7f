"""Scoring again: what is left to the scorers while no live run's rollouts wait. A few groups at a time, so that none waits long."""

from collections.abc import Callable

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError

from apps.rewards.models import RescoredGroup, Rescoring
from apps.rewards.rescoring.judging import Taken, record, take
from apps.runs.models import NotPossible
from workers.answering import answered
from workers.leases import kept

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 8


def rescore(owner: str, say: Callable[[str], object] = str, only: Rescoring | None = None) -> bool:
    """Judge some groups of the oldest open rescoring (or of `only`); says whether there were any.

    A fault of ours ends the rescoring with its reason; a database that is away is for the caller to wait for.
    """
    taken = take(owner, settings.LEASE_SECONDS, GROUPS_AT_ONCE, only)
    if taken is None:
        return False
    say(f"scoring {len(taken.items)} groups of {taken.rescoring.run.slug} again")
    try:
        judged = _judge(taken)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # the loop around one unit of work: what went wrong is kept with it, and the station goes on
        log.exception("rescoring_failed", run=taken.rescoring.run, rescoring=taken.rescoring.pk)
        _fail(taken.rescoring, f"{type(error).__name__}: {error}")
    else:
        log.info("scored_again", run=taken.rescoring.run, rescoring=taken.rescoring.pk, groups=judged)
    return True


def _judge(taken: Taken) -> int:
    known = taken.known()
    questions = taken.questions(known)
    with kept(lambda: RescoredGroup.objects.keep(taken.claims, settings.LEASE_SECONDS)):
        answers = answered(taken.groups, questions, known)
    return record(taken, answers)


def _fail(rescoring: Rescoring, reason: str) -> None:
    try:
        rescoring.fail(reason)
    except NotPossible:
        log.info("rescoring_over_already", rescoring=rescoring.pk)
