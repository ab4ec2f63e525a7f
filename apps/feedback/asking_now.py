"""Replies that somebody picked put before people ahead of all that waits."""

from collections.abc import Collection
from dataclasses import dataclass

from apps.accounts.locking import lock, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback.models import Item, Slot
from apps.feedback.suspicions.asking import FIRST, open_checks
from apps.rollouts.models import Group, Rollout
from apps.runs.models import NotPossible, Run

CLOSED = (Group.State.ADMITTED, Group.State.DROPPED)


@dataclass(frozen=True)
class AskedNow:
    """`moved`: groups whose questions come first now; `opened`: replies asked about anew; `left`: replies that were left alone."""

    moved: int
    opened: int
    left: int


@unit_of_work
def ask_now(run: Run, rollouts: Collection[int], by: User) -> AskedNow:
    """Of a group that waits for people, its questions come next; of one that is closed, each reply is asked about once more.

    What is said of the latter is kept and shown, and makes no reward. What is on its way to people is left alone.
    Raises NotPossible.
    """
    if run.state in Run.ENDED:
        raise NotPossible(f"run {run.slug} is {run.get_state_display()}; nobody rates for it any more")
    picked = Rollout.objects.filter(run=run, pk__in=rollouts)
    groups = lock(Group.objects.filter(pk__in=picked.values("group")))
    states = {group.pk: group.state for group in groups}
    waiting = Slot.objects.filter(group__in=[pk for pk, state in states.items() if state == Group.State.WAITING], state="open")
    moved = set(waiting.values_list("group_id", flat=True))
    waiting.update(due_at=FIRST)
    finished = picked.filter(group__state__in=CLOSED, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)
    asked = {pk for members in _asked(states) for pk in members}
    fresh = [reply for reply in finished.order_by("pk") if reply.pk not in asked]
    if fresh:
        open_checks(run, fresh)
    if not moved and not fresh:
        raise NotPossible("nothing of it can be asked about now: it is on its way to people, or they are being asked")
    left = picked.exclude(group__in=moved).count() - len(fresh)
    AuditEntry.record(
        "raters asked", f"run {run.project.slug}/{run.slug}", by, run.project, groups_moved=len(moved), replies=len(fresh)
    )
    run.topic.record("raters_asked", groups=len(moved), replies=len(fresh), by=str(by))
    return AskedNow(len(moved), len(fresh), left)


def _asked(groups: Collection[int]) -> list[list[int]]:
    """The replies that people are being asked about aside, by item."""
    open_ones = Slot.objects.filter(state__in=["open", "held"])
    checks = Item.objects.filter(group__in=groups, purpose=Item.Purpose.CHECK, slots__in=open_ones)
    return list(checks.values_list("members", flat=True))
