"""The scorer's job: machine rewards for groups whose rollouts are all there."""

from functools import cache

import structlog
from celery import shared_task
from django.conf import settings
from django.db import transaction

from apps.feedback.models import settle
from apps.rewards.scoring import open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.models import Worker
from apps.streaming import bells
from workers.grading import Grader
from workers.slices import register, run_slice

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 32


@shared_task(name="score")
def score(**_: object) -> None:
    run_slice("score", serve)


@cache
def me() -> Worker:
    return register(Worker.Role.SCORER)


@cache
def grader() -> Grader:
    return Grader()


def serve() -> bool:
    """Score the oldest unscored groups; says whether there were any."""
    groups = Group.objects.claim(Group.State.SCORING, me().key, settings.LEASE_SECONDS, GROUPS_AT_ONCE)
    me().beat(f"scoring {len(groups)} groups" if groups else "waiting for rollouts")
    if not groups:
        return False
    questions = open_questions(groups)
    done = record_verdicts(groups, list(zip(questions, grader().grade(questions), strict=True)))
    for group in done:
        settle_early(group)
    bells.ring("refine")
    log.info("scored", groups=len(done), rollouts=len(questions))
    return True


def settle_early(group: Group) -> None:
    """People may have rated while the machine still did: then the group need not wait."""
    if group.state == Group.State.WAITING:
        with transaction.atomic():
            settle(Group.objects.select_for_update().get(pk=group.pk))
