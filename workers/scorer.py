"""The scorer's job: machine rewards for groups whose rollouts are all there."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import structlog
from celery import shared_task
from django.conf import settings
from django.db import transaction

from apps.feedback.models import settle
from apps.policies.damage import DamagedWeights
from apps.rewards import learned
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import Question, open_questions, record_verdicts
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
    done = record_verdicts(groups, answered(groups, questions))
    for group in done:
        settle_early(group)
    bells.ring("refine")
    for run in {group.run_id: group.run for group in done}.values():
        log.info("scored", run=run.slug, groups=[group.pk for group in done if group.run_id == run.pk])
    return True


def answered(groups: Sequence[Group], questions: Sequence[Question]) -> list[tuple[Question, Verdict]]:
    """Each question with its verdict: rules' from the killable child, learned scorers' from their models."""
    by_rule = [question for question in questions if not learned.is_learned(question.scorer)]
    verdicts = list(zip(by_rule, grader().grade(by_rule), strict=True))
    by_model = defaultdict(list)
    projects = {group.pk: group.run.project_id for group in groups}
    for question in questions:
        if learned.is_learned(question.scorer):
            by_model[projects[question.group_id], question.scorer].append(question)
    for (project, scorer), some in by_model.items():
        verdicts += zip(some, judged(project, scorer, some), strict=True)
    return verdicts


def judged(project: int, scorer: str, questions: Sequence[Question]) -> list[Verdict]:
    """A model that is not there, or cannot be loaded, has not judged: NULL with the reason."""
    try:
        folder = learned.find(project, scorer).folder
        return reward_models().of(folder).judge([(question.prompt, question.text) for question in questions])
    except (LookupError, OSError, DamagedWeights) as error:
        log.error("reward_model_unusable", scorer=scorer, error=str(error))
        return [Verdict(None, f"scorer {scorer}: {error}"[:300])] * len(questions)


@cache
def reward_models():
    from workers.reward_models import RewardModels  # loads torch, which a worker of rules alone never needs

    return RewardModels()


def settle_early(group: Group) -> None:
    """People may have rated while the machine still did: then the group need not wait."""
    if group.state == Group.State.WAITING:
        with transaction.atomic():
            settle(Group.objects.select_for_update().get(pk=group.pk))
