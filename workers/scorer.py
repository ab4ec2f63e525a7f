"""The scorer's job: automatic rewards for groups whose rollouts are complete."""

import contextlib
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from celery import shared_task
from django.conf import settings

from apps.accounts.locking import unit_of_work
from apps.environments.judging import send_on
from apps.feedback.item_opening import open_items
from apps.feedback.rater_model.anchoring import keep_anchor, unanchored
from apps.feedback.rater_model.base_nll import save_base_nll, unread
from apps.policies.damage import DamagedWeights
from apps.rewards.models import Rescoring
from apps.rewards.sandbox import delegation
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rewards.testbench.asking import ask_changed
from apps.rollouts.models import Group
from apps.runs.models import Run, StaleFence, Worker
from apps.streaming import worker_notifications
from apps.tasksets.selection import chance
from workers.leases import renewed
from workers.rescoring import rescore
from workers.scorer_dispatch import answer_questions
from workers.testbench import check_cases, has_work, try_replies
from workers.time_slices import ActivityReport, SideWork, register_worker, run_slice
from workers.worker_description import describe_worker

if TYPE_CHECKING:
    from workers.base_nll import BasePolicies

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 32
LIBRARIES = ("torch", "transformers", "math-verify")
aside = SideWork()
doing = ActivityReport()


@shared_task(name="score")
def score(**_: object) -> None:
    own_worker_row()  # register at once, so that a fresh installation shows the worker
    ask_after_upgrade()
    run_slice("score", serve, lambda: Rescoring.objects.open().exists() or has_work())


@cache
def own_worker_row() -> Worker:
    facts = describe_worker(LIBRARIES)
    facts["details"]["sandbox"] = delegation().description
    return register_worker(Worker.Role.SCORER, **facts)


@cache
def ask_after_upgrade() -> None:
    """Have regression sets checked once a worker starts whose scorers have other versions."""
    for check in ask_changed():
        log.info("regression_check_started", project=check.project.slug, cases=check.cases)


def serve() -> bool:
    """Score the oldest unscored groups of live runs and a few replies of the test bench.

    Without such groups, part of a regression set or of a rescoring. Returns whether there was any.
    """
    if own_worker_row().takes_nothing:
        return False
    groups = claimed()
    tried = False
    is_aside = aside.is_due(bool(groups))
    if is_aside:
        if send_on() and not groups:
            groups = claimed()
        tried = try_replies(
            own_worker_row().key, own_worker_row().beat
        )  # somebody waits for them before a page
    if groups:
        score_groups(groups)
        return True
    return is_aside and (tried or beside_live_runs() or is_work_waiting())


def claimed() -> list[Group]:
    state = Group.State.SCORING
    return Group.objects.claim(state, own_worker_row().key, settings.LEASE_SECONDS, GROUPS_AT_ONCE)


def score_groups(groups: list[Group]) -> None:
    """Judge these claimed groups by machine, and hand them on."""
    words = f"scoring {len(groups)} groups"
    doing.say(own_worker_row(), words)
    groups = with_their_base(groups)
    claims = [group.claimed for group in groups]
    questions = open_questions(groups)
    with renewed(
        lambda: (
            Group.objects.renew(claims, settings.LEASE_SECONDS),
            own_worker_row().beat(words),
        ),
    ):
        answers = answer_questions(groups, questions)
    recorded = _record(groups, answers)
    worker_notifications.notify_workers("refine")
    for run in {group.run_id: group.run for group in recorded}.values():
        log.info(
            "groups_scored",
            run=run,
            groups=[group.pk for group in recorded if group.run_id == run.pk],
        )


def beside_live_runs() -> bool:
    """Do a part of what has time: a check of a regression set, or a rescoring."""
    return check_cases(own_worker_row().key, own_worker_row().beat) or rescore(
        own_worker_row().key, own_worker_row().beat
    )


@unit_of_work
def _record(groups: Sequence[Group], answers: Sequence[AnsweredQuestion]) -> list[Group]:
    """Write the verdicts and open rating items for people; return the groups that moved on."""
    recorded = record_verdicts(groups, answers)
    open_items([group for group in recorded if group.state == Group.State.WAITING])
    return recorded


def is_work_waiting() -> bool:
    doing.say(own_worker_row(), "waiting for rollouts")
    return False


def with_their_base(groups: Sequence[Group]) -> list[Group]:
    """Return the groups whose base policy has computed what a rater model needs.

    That is its own answer to ranked prompts, and the base NLL. A group whose base policy cannot be
    loaded is freed for another attempt, and dropped with the reason when these are used up.
    """
    ready = []
    for run in {group.run_id: group.run for group in groups}.values():
        ours = [group for group in groups if group.run_id == run.pk]
        try:
            sample_anchors(run, ours)
            record_base_nlls(run, ours)
            ready += ours
        except (OSError, DamagedWeights, ValueError) as error:
            log.error("base_policy_unusable", run=run, error=str(error))
            for group in ours:
                fail_group(group, f"base NLL: {error}")
    return ready


def sample_anchors(run: Run, groups: list[Group]) -> None:
    """Sample the base policy's answers to prompts whose rankings lack their anchor.

    Raises OSError and DamagedWeights.
    """
    missing = sorted(unanchored(groups), key=attrgetter("max_tokens"))
    for max_tokens, alike in groupby(missing, key=attrgetter("max_tokens")):
        base = base_policies().of(Path(run.policy.folder))
        some = list(alike)
        seeds = [
            chance.derive_seed("anchor", run.settings.seed, of.group.draw_index) for of in some
        ]
        answers = base.answers(
            [of.prompt_ids for of in some], max_tokens, some[0].temperature, seeds
        )
        for of, answer in zip(some, answers, strict=True):
            keep_anchor(of, answer.ids, answer.logprobs, answer.text)


def record_base_nlls(run: Run, groups: list[Group]) -> None:
    """Compute and store the missing base NLLs. Raises OSError, DamagedWeights and ValueError."""
    rows = unread(groups)
    if rows:
        nats = (
            base_policies()
            .of(Path(run.policy.folder))
            .nlls([(row.prompt_ids, row.completion_ids) for row in rows])
        )
        save_base_nll(
            {row.rollout: row.surprise(logprobs) for row, logprobs in zip(rows, nats, strict=True)}
        )


def fail_group(group: Group, reason: str) -> None:
    with contextlib.suppress(StaleFence):  # another worker has taken over
        group.fail(reason)


@cache
def base_policies() -> "BasePolicies":
    from workers.base_nll import BasePolicies  # loads torch

    return BasePolicies()
