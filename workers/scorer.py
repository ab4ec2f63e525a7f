"""The scorer's job: machine rewards for groups whose rollouts are all there."""

import contextlib
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import structlog
from celery import shared_task
from django.conf import settings

from apps.accounts.locking import unit_of_work
from apps.environments.judging import send_on
from apps.feedback.opening import open_items
from apps.feedback.rater_model.anchoring import keep_anchor, unanchored
from apps.feedback.rater_model.surprising import keep, unread
from apps.policies.damage import DamagedWeights
from apps.rewards.models import Rescoring
from apps.rewards.sandbox import delegation
from apps.rewards.scoring import Answered, open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.models import Run, StaleFence, Worker
from apps.streaming import bells
from apps.tasksets.selection import chance
from workers.answering import answered
from workers.described import described
from workers.leases import kept
from workers.rescoring import rescore
from workers.slices import register, run_slice

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 32
LIBRARIES = ("torch", "transformers", "math-verify")


@shared_task(name="score")
def score(**_: object) -> None:
    me()  # whoever looks at a fresh installation sees it, before any run is live
    run_slice("score", serve, Rescoring.objects.open().exists)


@cache
def me() -> Worker:
    facts = described(LIBRARIES)
    facts["details"]["sandbox"] = delegation().description
    return register(Worker.Role.SCORER, **facts)


def serve() -> bool:
    """Score the oldest unscored groups of live runs, or else some that are to be scored again; says whether there were any."""
    if me().takes_nothing:
        return False
    send_on()
    groups = Group.objects.claim(Group.State.SCORING, me().key, settings.LEASE_SECONDS, GROUPS_AT_ONCE)
    if not groups:
        return rescore(me().key, me().beat) or waiting()
    me().beat(f"scoring {len(groups)} groups")
    groups = with_their_base(groups)
    claims = [group.claimed for group in groups]
    questions = open_questions(groups)
    with kept(lambda: (Group.objects.keep(claims, settings.LEASE_SECONDS), me().beat(f"scoring {len(groups)} groups"))):
        answers = answered(groups, questions)
    done = _record(groups, answers)
    bells.ring("refine")
    for run in {group.run_id: group.run for group in done}.values():
        log.info("scored", run=run, groups=[group.pk for group in done if group.run_id == run.pk])
    return True


@unit_of_work
def _record(groups: Sequence[Group], answers: Sequence[Answered]) -> list[Group]:
    """Write the verdicts and open the items for people; returns the groups handed on."""
    done = record_verdicts(groups, answers)
    open_items(done)
    return done


def waiting() -> bool:
    me().beat("waiting for rollouts")
    return False


def with_their_base(groups: Sequence[Group]) -> list[Group]:
    """The groups whose base policy has said what a rater model needs: its own answer to what is ranked, and its surprise.

    One whose base policy cannot be loaded is freed for another attempt, and dropped with the reason when these are used up.
    """
    ready = []
    for run in {group.run_id: group.run for group in groups}.values():
        ours = [group for group in groups if group.run_id == run.pk]
        try:
            anchor(run, ours)
            find_surprise(run, ours)
            ready += ours
        except (OSError, DamagedWeights, ValueError) as error:
            log.error("base_policy_unusable", run=run, error=str(error))
            for group in ours:
                fail(group, f"surprise under the base weights: {error}")
    return ready


def anchor(run: Run, groups: list[Group]) -> None:
    """Let the base answer the prompts whose rankings lack their anchor. Raises OSError and DamagedWeights."""
    missing = sorted(unanchored(groups), key=attrgetter("max_tokens"))
    for most, alike in groupby(missing, key=attrgetter("max_tokens")):
        base = base_policies().of(Path(run.policy.folder))
        some = list(alike)
        seeds = [chance.seed("anchor", run.settings.seed, of.group.draw_index) for of in some]
        said = base.answers([of.prompt_ids for of in some], most, some[0].temperature, seeds)
        for of, answer in zip(some, said, strict=True):
            keep_anchor(of, answer.ids, answer.logprobs, answer.text)


def find_surprise(run: Run, groups: list[Group]) -> None:
    """Compute and keep what is missing. Raises OSError, DamagedWeights and ValueError."""
    rows = unread(groups)
    if rows:
        nats = base_policies().of(Path(run.policy.folder)).surprises([(row.prompt_ids, row.completion_ids) for row in rows])
        keep({row.rollout: row.surprise(said) for row, said in zip(rows, nats, strict=True)})


def fail(group: Group, reason: str) -> None:
    with contextlib.suppress(StaleFence):  # another worker has it by now
        group.fail(reason)


@cache
def base_policies():
    from workers.surprise import Bases  # loads torch

    return Bases()
