"""The refiner's job: judged groups become experiences or are dropped.

Those of evaluations are closed.
"""

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache

import structlog
from celery import shared_task
from django.conf import settings

from apps.evaluation.results import keep_results
from apps.feedback.aggregating import write_people_rewards
from apps.feedback.group_completion import close_overdue, settle_ready
from apps.feedback.models import Slot
from apps.feedback.rater_model.predicted_rewards import write_model_rewards
from apps.pipelines.refining import refine
from apps.rollouts.evaluation_groups import complete_measured
from apps.rollouts.models import Group
from apps.runs.costs import CPU
from apps.runs.models import Usage, Worker
from workers.rater_heads.launching import score_with_head, train_where_due
from workers.time_slices import ActivityReport, SideWork, register_worker, run_slice
from workers.worker_description import describe_worker

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 32
LIBRARIES = ("torch", "transformers", "numpy")
aside = SideWork()
doing = ActivityReport()


@shared_task(name="refine")
def refine_slice(**_: object) -> None:
    own_worker_row()  # register at once, so that a fresh installation shows the worker
    run_slice("refine", serve)


@cache
def own_worker_row() -> Worker:
    return register_worker(Worker.Role.REFINER, **describe_worker(LIBRARIES))


def serve() -> bool:
    """Forward groups whose deadline for people has passed, then refine judged groups."""
    if own_worker_row().takes_nothing:
        return False
    groups = claimed()
    if aside.is_due(bool(groups)):
        close_what_is_due()
        groups = groups or claimed()
    if not groups:
        doing.say(own_worker_row(), "waiting for judged groups")
        return False
    doing.say(own_worker_row(), f"processing {len(groups)} groups")
    began = time.process_time()
    write_people_rewards(groups)
    write_model_rewards(groups, score_with_head)
    train_where_due({group.run_id: group.run for group in groups}.values())
    refine(groups)
    share_out(groups, time.process_time() - began)
    if any(group.run.is_evaluation for group in groups) and complete_measured():
        keep_results()
    for run in {group.run_id: group.run for group in groups}.values():
        ours = [group for group in groups if group.run_id == run.pk]
        states = Counter(group.state for group in ours)
        log.info(
            "groups_refined",
            run=run,
            groups=[group.pk for group in ours],
            admitted=states[Group.State.ADMITTED],
            measured=states[Group.State.MEASURED],
        )
    return True


def claimed() -> list[Group]:
    state = Group.State.JUDGED
    return Group.objects.claim(state, own_worker_row().key, settings.LEASE_SECONDS, GROUPS_AT_ONCE)


def close_what_is_due() -> None:
    """Do what time alone makes due: deadlines of slots and groups, and complete evaluations."""
    Slot.objects.expire()
    close_overdue()
    settle_ready()
    if complete_measured():
        keep_results()


def share_out(groups: Sequence[Group], seconds: float) -> None:
    """Add the CPU seconds of this work to the runs' usage, divided by their number of groups."""
    counts = Counter(group.run_id for group in groups)
    Usage.add_all(
        {
            (run, own_worker_row().key): {f"refiner.{CPU}": seconds * count / len(groups)}
            for run, count in counts.items()
        }
    )
