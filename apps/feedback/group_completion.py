"""Complete groups that wait for people: after enough answers, or at the deadline."""

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.accounts.locking import lock_ids, retrying, rows_to_lock, unit_of_work
from apps.feedback.models import ANSWERED, Rating, Slot
from apps.feedback.prepared import prepared_cursor
from apps.feedback.rater_model.schedule import first_share
from apps.feedback.rater_model.training_data import has_learnable
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.people import People
from apps.streaming import worker_notifications

GROUPS_AT_ONCE = 200
IN_HAND = Slot.objects.filter(
    group=OuterRef("pk"), state__in=[Slot.State.OPEN, Slot.State.HELD], is_required=True
)


GO_ON = """
    UPDATE rollouts_group g SET state = 'judged', judged_at = statement_timestamp()
    WHERE g.id = %s AND g.state = 'waiting' AND NOT EXISTS (
        SELECT 1 FROM feedback_slot s
            WHERE s.group_id = g.id AND s.state IN ('open', 'held') AND s.is_required)"""


def settle_group(group: Group, people: People | None = None) -> bool:
    """Pass on a waiting group once nobody is asked about it any more; one statement.

    Returns whether it was passed on. `people` is that section of its run, if the caller has it
    already. A group whose run has a rater model is left to `settle_ready`, because it may have to
    wait for the model's first decisions.
    """
    if group.state != Group.State.WAITING:
        return False
    if (people or group.run.settings.people).rater_model:
        transaction.on_commit(lambda: worker_notifications.notify_workers("refine"), robust=True)
        return False
    with prepared_cursor() as cursor:
        cursor.execute(GO_ON, [group.pk])
        moved = cursor.rowcount
    if moved:
        group.state = Group.State.JUDGED
        transaction.on_commit(lambda: worker_notifications.notify_workers("refine"), robust=True)
    return bool(moved)


@retrying
def settle_ready() -> int:
    """Pass on complete groups of runs whose rater model has learned enough to judge them."""
    ready = [run.pk for run in _running() if not is_early(run)]
    with transaction.atomic():
        going = [group.pk for group in _lock_unasked(ready)]
        return (
            _unasked().filter(pk__in=going).update(state=Group.State.JUDGED, judged_at=Now())
            if going
            else 0
        )


@compiled_query
def _running() -> QuerySet[Run]:
    return Run.objects.running()


@compiled_query
def _lock_unasked(runs: list[int]) -> QuerySet[Group]:
    unasked = _unasked().filter(EqualsAny("run", runs)).order_by("pk")
    return rows_to_lock(unasked.only("pk")[:GROUPS_AT_ONCE], skip_locked=True)


def is_early(run: Run) -> bool:
    """Tell whether the run has a rater model that still lacks its minimum of decisions."""
    people = run.settings.people
    if people.rater_model is None:
        return False
    if not has_learnable(run, people.rater_model.min_ratings):
        return True
    if people.schedule is None:
        return False
    # Answers count whatever became of them: flags, and votes set aside since.
    needed = first_share(run.settings)
    return (
        Rating.objects.counting()
        .filter(Q(item=None) | ~Q(item__purpose__in=ANSWERED), run=run)[:needed]
        .count()
        < needed
    )


@retrying
def close_overdue() -> int:
    """Pass on every waiting group whose deadline has passed; the refiner decides about it."""
    with transaction.atomic():
        groups = _lock_overdue()
        for group in groups:
            group.move(Group.State.JUDGED, judged_at=Now())
        if groups:
            Slot.objects.close([group.pk for group in groups])
    return len(groups)


@compiled_query
def _lock_overdue() -> QuerySet[Group]:
    overdue = Group.objects.filter(state=Group.State.WAITING, deadline_at__lte=Now())
    return rows_to_lock(overdue.order_by("pk")[:GROUPS_AT_ONCE], skip_locked=True)


@unit_of_work
def close_ended() -> int:
    """Close and drop the groups that ended runs left open; return how many."""
    open_groups = Group.objects.filter(state__in=Group.OPEN, run__state__in=Run.ENDED)
    Slot.objects.close(lock_ids(open_groups))
    return Group.objects.close_ended()


def _unasked() -> QuerySet[Group]:
    return Group.objects.filter(~Exists(IN_HAND), state=Group.State.WAITING)
