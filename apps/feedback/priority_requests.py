"""Priority requests: put chosen replies before people ahead of everything that waits."""

from collections.abc import Collection
from dataclasses import dataclass

from apps.accounts.locking import lock_rows, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback.models import Item, Slot
from apps.feedback.suspicions.asking import FIRST, open_checks
from apps.rollouts.models import Group, Rollout
from apps.runs.models import NotPossible, Run

CLOSED = (Group.State.ADMITTED, Group.State.DROPPED)


@dataclass(frozen=True)
class PriorityRequestResult:
    """The result of a priority request.

    `moved` counts groups whose items now come first, `opened` new items about replies, and
    `skipped` replies for which nothing changed.
    """

    moved: int
    opened: int
    skipped: int


@unit_of_work
def request_priority(run: Run, rollouts: Collection[int], by: User) -> PriorityRequestResult:
    """Put the items of waiting groups first, and open a new item for each reply of a closed group.

    Answers to new items are kept and shown, but make no reward. Replies that will still come to
    people are skipped. Raises NotPossible.
    """
    if run.state in Run.ENDED:
        raise NotPossible(f"run {run.slug} is {run.get_state_display()}; it takes no more ratings")
    picked = Rollout.objects.filter(run=run, pk__in=rollouts)
    groups = lock_rows(Group.objects.filter(pk__in=picked.values("group")))
    states = {group.pk: group.state for group in groups}
    waiting = Slot.objects.filter(
        group__in=[pk for pk, state in states.items() if state == Group.State.WAITING], state="open"
    )
    moved = set(waiting.values_list("group_id", flat=True))
    waiting.update(due_at=FIRST)
    finished = picked.filter(
        group__state__in=CLOSED, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    asked_replies = {pk for members in _open_replies(states) for pk in members}
    fresh = [reply for reply in finished.order_by("pk") if reply.pk not in asked_replies]
    if fresh:
        open_checks(run, fresh)
    if not moved and not fresh:
        raise NotPossible("its replies are already in the rating queue, or being rated")
    skipped = picked.exclude(group__in=moved).count() - len(fresh)
    AuditEntry.record(
        "ratings requested",
        f"run {run.project.slug}/{run.slug}",
        by,
        run.project,
        groups_moved=len(moved),
        replies=len(fresh),
    )
    run.topic.record("ratings_requested", groups=len(moved), replies=len(fresh), by=str(by))
    return PriorityRequestResult(len(moved), len(fresh), skipped)


def _open_replies(groups: Collection[int]) -> list[list[int]]:
    """Return the replies with open items that do not count for training, by item."""
    open_ones = Slot.objects.filter(state__in=["open", "held"])
    checks = Item.objects.filter(group__in=groups, purpose=Item.Purpose.CHECK, slots__in=open_ones)
    return list(checks.values_list("members", flat=True))
