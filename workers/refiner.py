"""The refiner's job: judged groups become experiences, or are dropped with a reason; those of an evaluation are closed."""

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache

import structlog
from celery import shared_task
from django.conf import settings

from apps.feedback.aggregating import aggregate
from apps.feedback.evaluation.results import keep_results
from apps.feedback.models import Slot
from apps.feedback.rater_model.filling import fill
from apps.feedback.settling import close_overdue, settle_ready
from apps.pipelines.refining import refine
from apps.rollouts.measuring import complete_measured
from apps.rollouts.models import Group
from apps.runs.costs import CPU
from apps.runs.models import Usage, Worker
from workers.described import described
from workers.rater_heads.launching import judge, train_where_due
from workers.slices import register, run_slice

log = structlog.get_logger(__name__)
GROUPS_AT_ONCE = 32
LIBRARIES = ("torch", "transformers", "numpy")


@shared_task(name="refine")
def refine_slice(**_: object) -> None:
    me()  # whoever looks at a fresh installation sees it, before any run is live
    run_slice("refine", serve)


@cache
def me() -> Worker:
    return register(Worker.Role.REFINER, **described(LIBRARIES))


def serve() -> bool:
    """Send on groups whose deadline for people has passed, then refine what is judged."""
    if me().takes_nothing:
        return False
    Slot.objects.release_expired()
    close_overdue()
    settle_ready()
    groups = Group.objects.claim(Group.State.JUDGED, me().key, settings.LEASE_SECONDS, GROUPS_AT_ONCE)
    me().beat(f"refining {len(groups)} groups" if groups else "waiting for judged groups")
    if not groups:
        return False
    began = time.process_time()
    aggregate(groups)
    fill(groups, judge)
    train_where_due({group.run_id: group.run for group in groups}.values())
    refine(groups)
    share_out(groups, time.process_time() - began)
    if complete_measured():
        keep_results()
    for run in {group.run_id: group.run for group in groups}.values():
        ours = [group for group in groups if group.run_id == run.pk]
        states = Counter(group.state for group in ours)
        log.info(
            "refined", run=run, groups=[group.pk for group in ours], admitted=states[Group.State.ADMITTED],
            measured=states[Group.State.MEASURED],
        )  # fmt: skip
    return True


def share_out(groups: Sequence[Group], seconds: float) -> None:
    """What this took of the processor, to the runs by their groups."""
    counts = Counter(group.run_id for group in groups)
    Usage.add_all({(run, me().key): {f"refiner.{CPU}": seconds * count / len(groups)} for run, count in counts.items()})
