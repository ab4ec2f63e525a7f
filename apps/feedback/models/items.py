"""Items to be decided, their slots (one for each decision an item needs), and skips.

A slot goes from open to held (by one person, until its lease ends) to done, or to closed when
nobody is asked any more.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.locking import lock_ids, rows_to_lock, unit_of_work
from apps.accounts.models import User
from apps.leases.lease import Lease, LeaseQuerySet
from apps.rollouts.models import Group
from apps.runs.models import Run

# Purposes with a known right answer.
KNOWN = ("gold", "attention")
# Purpose of the items that each rater answers before the others, with the answer explained.
NORMING = "norming"
# Purposes whose answers add nothing to what is known about a reply.
ANSWERED = (*KNOWN, NORMING)
# Purposes that make no reward, and for which no group waits: known answers, repeated items, and
# checks of a suspicion.
ASIDE = (*ANSWERED, "repeat", "check")


class ItemQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "ItemQuerySet":
        return self.filter(run__in=Run.objects.visible_to(user))


class Item(models.Model):
    """A question to people about one rollout, or about several of a group."""

    class Purpose(models.TextChoices):
        REWARD = "reward", "reward"
        AUDIT = "audit", "random audit of the rater model"
        REPEAT = "repeat", "repeat, to measure agreement"
        GOLD = "gold", "gold item"
        ATTENTION = "attention", "attention check"
        NORMING = "norming", "norming item"
        REWRITE = "rewrite", "rewrite"
        CHECK = "check", "check of a suspicion"

    class State(models.TextChoices):
        OPEN = "open"
        DONE = "done"
        CLOSED = "closed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="items")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="items")
    form = models.CharField(max_length=20)
    purpose = models.CharField(max_length=9, choices=Purpose.choices, default=Purpose.REWARD)
    members = ArrayField(models.BigIntegerField(), help_text="IDs of the rollouts to rate.")
    overlap = models.PositiveSmallIntegerField(default=1, help_text="Number of people who rate it.")
    version = models.PositiveIntegerField(
        default=1,
        help_text="Rises with each change of the item; answers to an older version are stale.",
    )
    expected = models.JSONField(null=True, help_text="The correct answer, if known.")
    explanation = models.TextField(
        blank=True, help_text="Why the answer is correct; shown to the rater afterwards."
    )
    repeats = models.ForeignKey(
        "self", null=True, on_delete=models.CASCADE, related_name="repeated_by"
    )
    state = models.CharField(max_length=6, choices=State.choices, default=State.OPEN)
    opened_at = models.DateTimeField(db_default=Now())

    objects = ItemQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(members__len__gte=1), name="an_item_is_about_something"
            ),
            models.CheckConstraint(
                condition=~Q(purpose__in=["gold", "attention", "norming"])
                | Q(expected__isnull=False),
                name="gold_is_known",
            ),
        ]
        indexes = [
            models.Index(fields=["group"], name="items_of_a_group"),
            models.Index(
                fields=["run", "id"],
                name="known_answers",
                condition=Q(purpose__in=["gold", "attention", "norming"], state="open"),
            ),
        ]

    def __str__(self) -> str:
        return f"item {self.pk} ({self.form})"


class SlotQuerySet(LeaseQuerySet["Slot"]):
    @unit_of_work
    def expire(self) -> int:
        """Release slots with an expired lease.

        They are opened while their group waits, otherwise closed. Returns their number. The last
        holder stays recorded, because that person's answer is accepted until somebody else takes
        the slot. The groups are locked too: a group that closes meanwhile closes only slots that
        are open, and would leave behind one that is opened here. Slots of norming items are
        deleted, because nobody else waits for one, and its rater gets a new one.
        """
        if not (expired_slots := _lock_expired()):
            return 0
        pks = [slot.pk for slot in expired_slots]
        norming_ids = set(
            self.filter(pk__in=pks, item__purpose=NORMING).values_list("pk", flat=True)
        )
        self.filter(pk__in=norming_ids).delete()
        lost = [slot for slot in expired_slots if slot.pk not in norming_ids]
        waiting = Group.State.WAITING
        reopened_ids = {
            slot.pk for slot in lost if not slot.is_required or slot.group.state == waiting
        }
        self.filter(pk__in=reopened_ids).update(state=Slot.State.OPEN)
        self.filter(pk__in={slot.pk for slot in lost} - reopened_ids).update(
            state=Slot.State.CLOSED
        )
        return len(expired_slots)

    @transaction.atomic
    def close(self, groups: Collection[int]) -> None:
        """Close the slots of these groups.

        The answer of a person who is deciding just now is accepted, but counts as late.
        """
        self.filter(pk__in=self.lock_open(groups)).update(state=Slot.State.CLOSED)

    def lock_open(self, groups: Collection[int]) -> list[int]:
        """Lock the open slots of these groups, which the caller has locked; return their ids."""
        return lock_ids(self.filter(group__in=groups, state=Slot.State.OPEN))


class Slot(Lease):
    """One of the decisions that an item needs; its holder writes under its fence."""

    class State(models.TextChoices):
        OPEN = "open"
        HELD = "held"
        DONE = "done"
        CLOSED = "closed"

    # A person may finish a rating that took too long.
    OUTLIVES_LEASE = True

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="slots")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="slots")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="slots")
    place = models.PositiveSmallIntegerField(default=0)
    is_required = models.BooleanField(default=True, help_text="The group waits for this answer.")
    state = models.CharField(max_length=6, choices=State.choices, default=State.OPEN)
    due_at = models.DateTimeField(
        help_text=(
            "Slots with the earliest time are served first: the group's deadline, "
            "shifted by priority."
        )
    )
    rater = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="slots"
    )
    held_at = models.DateTimeField(null=True)
    lease_s = models.FloatField(
        null=True,
        help_text="Seconds of a renewed lease; NULL renews it by its present length.",
    )
    shown = ArrayField(
        models.BigIntegerField(),
        null=True,
        help_text="IDs of the rollouts in the order shown to this rater.",
    )

    objects: ClassVar = SlotQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "place"], name="one_slot_per_place"),
            models.UniqueConstraint(fields=["item", "rater"], name="one_slot_per_rater"),
        ]
        indexes = [
            # claiming: the most urgent open slot of a run.
            models.Index(
                fields=["run", "due_at", "id"], name="open_slots", condition=Q(state="open")
            ),
            models.Index(fields=["rater"], name="held_slots", condition=Q(state="held")),
            models.Index(
                fields=["lease_until"], name="slots_running_out", condition=Q(state="held")
            ),
            # settling: whether anything of this group still waits.
            models.Index(
                fields=["group"], name="slots_in_hand", condition=Q(state__in=["open", "held"])
            ),
        ]

    def __str__(self) -> str:
        return f"slot {self.pk}: {self.state}"


class Skip(models.Model):
    """A person's skip of an item, with the reason; others may still get the item."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="skips")
    rater = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="skips"
    )
    reason = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "rater"], name="one_skip_per_rater")]

    def __str__(self) -> str:
        return f"{self.rater} passed over {self.item_id}"


def open_slots(
    items: list[Item],
    due_at: Mapping[int, datetime],
    due_of: Mapping[int, datetime] = MappingProxyType({}),
) -> list[Slot]:
    """Create the slots of these items; `due_at` by group, and `due_of` by item where known."""
    return Slot.objects.bulk_create(
        Slot(
            item=item,
            run_id=item.run_id,
            group_id=item.group_id,
            place=place,
            due_at=due_of.get(item.pk, due_at[item.group_id]),
            is_required=item.purpose not in ASIDE,
        )
        for item in items
        for place in range(item.overlap)
    )


@compiled_query
def _lock_expired() -> models.QuerySet[Slot]:
    over = Slot.objects.expired().filter(state=Slot.State.HELD).select_related("group")
    return rows_to_lock(over, "group", skip_locked=True)
