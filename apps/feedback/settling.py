"""When a group has heard enough of people: it goes on, or its deadline sends it on."""

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock, lock_ids, retrying, unit_of_work
from apps.feedback.models import KNOWN, Rating, Slot
from apps.feedback.prepared import prepared_cursor
from apps.feedback.rater_model.heard import has_learnable
from apps.feedback.rater_model.schedule import first_share
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.people import People
from apps.streaming import bells

GROUPS_AT_ONCE = 200
IN_HAND = Slot.objects.filter(group=OuterRef("pk"), state__in=[Slot.State.OPEN, Slot.State.HELD], is_required=True)


GO_ON = """
    UPDATE rollouts_group g SET state = 'judged', judged_at = statement_timestamp()
    WHERE g.id = %s AND g.state = 'waiting' AND NOT EXISTS (
        SELECT 1 FROM feedback_slot s WHERE s.group_id = g.id AND s.state IN ('open', 'held') AND s.is_required)"""


def settle(group: Group, people: People | None = None) -> bool:
    """Send a waiting group on once nobody is asked about it any more; one statement. Returns whether it went.

    `people`: that section of its run, where the caller has it already. A group whose run has a rater model is left to
    `settle_ready`: it may have to wait for the model's first decisions.
    """
    if group.state != Group.State.WAITING:
        return False
    if (people or group.run.settings.people).rater_model:
        transaction.on_commit(lambda: bells.ring("refine"), robust=True)
        return False
    with prepared_cursor() as cursor:
        cursor.execute(GO_ON, [group.pk])
        moved = cursor.rowcount
    if moved:
        group.state = Group.State.JUDGED
        transaction.on_commit(lambda: bells.ring("refine"), robust=True)
    return bool(moved)


@retrying
def settle_ready() -> int:
    """Send on the waiting groups that nobody is asked about, of runs whose rater model has learned enough to judge them."""
    ready = [run.pk for run in Run.objects.running() if not is_early(run)]
    unasked = _unasked().filter(run__in=ready).order_by("pk")
    with transaction.atomic():
        going = lock_ids(unasked[:GROUPS_AT_ONCE], skip_locked=True)
        return _unasked().filter(pk__in=going).update(state=Group.State.JUDGED, judged_at=Now()) if going else 0


def is_early(run: Run) -> bool:
    """Whether the run's rater model, if it has one, still lacks the decisions with which it begins."""
    people = run.settings.people
    if people.rater_model is None:
        return False
    if not has_learnable(run, people.rater_model.at_least):
        return True
    if people.schedule is None:
        return False
    wanted = first_share(run.settings)  # what was asked counts whatever became of it: flags, and votes set aside since
    return Rating.objects.counting().filter(Q(item=None) | ~Q(item__purpose__in=KNOWN), run=run)[:wanted].count() < wanted


@retrying
def close_overdue() -> int:
    """Send on every waiting group whose deadline for people has passed; what becomes of it is the refiner's rule."""
    with transaction.atomic():
        overdue = Group.objects.filter(state=Group.State.WAITING, deadline_at__lte=Now())
        groups = lock(overdue.order_by("pk")[:GROUPS_AT_ONCE], skip_locked=True)
        for group in groups:
            group.move(Group.State.JUDGED, judged_at=Now())
        if groups:
            Slot.objects.close([group.pk for group in groups])
    return len(groups)


@unit_of_work
def close_ended() -> int:
    """Ask nobody about what ended runs left open, and drop it. Returns how many groups."""
    left = Group.objects.filter(state__in=Group.OPEN, run__state__in=Run.ENDED)
    Slot.objects.close(lock_ids(left))
    return Group.objects.close_ended()


def _unasked() -> QuerySet[Group]:
    return Group.objects.filter(~Exists(IN_HAND), state=Group.State.WAITING)
