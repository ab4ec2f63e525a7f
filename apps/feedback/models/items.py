"""What waits to be decided: items, their slots (one for each decision an item wants), and who passed an item over.

A slot goes open → held (by one person, until its lease ends) → done; or closed, when nobody is asked any more.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import lock, lock_ids, unit_of_work
from apps.accounts.models import User
from apps.rollouts.models import Group
from apps.runs.models import Run

# Whose right answer is known.
KNOWN = ("gold", "attention")
# Or which is asked a second time, or to look into a suspicion: they make no reward and no group waits for them.
ASIDE = (*KNOWN, "repeat", "check")


class ItemQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "ItemQuerySet":
        return self.filter(run__in=Run.objects.visible_to(user))


class Item(models.Model):
    """One decision to be taken: about one rollout, or about several of a group."""

    class Purpose(models.TextChoices):
        REWARD = "reward", "its rollouts' reward"
        AUDIT = "audit", "a random row, which the rater model predicts before it learns it"
        REPEAT = "repeat", "asked a second time, to see how far people agree"
        GOLD = "gold", "its right answer is known"
        ATTENTION = "attention", "an obvious answer shows whether the rater reads"
        REWRITE = "rewrite", "an answer as it should be"
        CHECK = "check", "of the sample of a suspicion"

    class State(models.TextChoices):
        OPEN = "open"
        DONE = "done"
        CLOSED = "closed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="items")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="items")
    form = models.CharField(max_length=20)
    purpose = models.CharField(max_length=9, choices=Purpose.choices, default=Purpose.REWARD)
    members = ArrayField(models.BigIntegerField(), help_text="The rollouts it is about.")
    wanted = models.PositiveSmallIntegerField(default=1, help_text="How many people decide it.")
    version = models.PositiveIntegerField(default=1, help_text="Rises when it is changed: an answer to an older one is stale.")
    expected = models.JSONField(null=True, help_text="The right answer, where it is known.")
    explanation = models.TextField(blank=True, help_text="Why that is right; told to the rater afterwards.")
    repeats = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="repeated_by")
    state = models.CharField(max_length=6, choices=State.choices, default=State.OPEN)
    opened_at = models.DateTimeField(db_default=Now())

    objects = ItemQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(members__len__gte=1), name="an_item_is_about_something"),
            models.CheckConstraint(
                condition=~Q(purpose__in=["gold", "attention"]) | Q(expected__isnull=False), name="gold_is_known"
            ),
        ]
        indexes = [
            models.Index(fields=["group"], name="items_of_a_group"),
            models.Index(fields=["run", "id"], name="known_answers", condition=Q(purpose__in=["gold", "attention"], state="open")),
        ]

    def __str__(self) -> str:
        return f"item {self.pk} ({self.form})"


class SlotQuerySet(models.QuerySet):
    @unit_of_work
    def release_expired(self) -> int:
        """Give back what is held beyond its lease: open again while its group waits, else closed. Returns how many.

        The last holder stays noted: until somebody else takes the slot, that person's answer is still accepted.
        """
        over = self.filter(state=Slot.State.HELD, lease_until__lt=Now()).select_related("group")
        lost = lock(over, skip_locked=True)
        waiting = Group.State.WAITING
        still = {slot.pk for slot in lost if not slot.is_required or slot.group.state == waiting}
        self.filter(pk__in=still).update(state=Slot.State.OPEN)
        self.filter(pk__in={slot.pk for slot in lost} - still).update(state=Slot.State.CLOSED)
        return len(lost)

    @transaction.atomic
    def close(self, groups: Collection[int]) -> None:
        """Ask nobody about these groups any more. Who is deciding just now may end it: it counts as late."""
        self.filter(pk__in=self.lock_open(groups)).update(state=Slot.State.CLOSED)

    def lock_open(self, groups: Collection[int]) -> list[int]:
        """Lock the open slots of these groups, which the caller has locked; returns their ids."""
        return lock_ids(self.filter(group__in=groups, state=Slot.State.OPEN))


class Slot(models.Model):
    """One of the decisions an item wants; whoever holds it writes under its fence."""

    class State(models.TextChoices):
        OPEN = "open"
        HELD = "held"
        DONE = "done"
        CLOSED = "closed"

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="slots")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="slots")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="slots")
    place = models.PositiveSmallIntegerField(default=0)
    is_required = models.BooleanField(default=True, help_text="Its group waits for it.")
    state = models.CharField(max_length=6, choices=State.choices, default=State.OPEN)
    due_at = models.DateTimeField(help_text="The earliest is served first: its group's deadline, moved by what it is worth.")
    rater = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="slots")
    held_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    shown = ArrayField(models.BigIntegerField(), null=True, help_text="The rollouts in the order in which this rater sees them.")

    objects = SlotQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "place"], name="one_slot_per_place"),
            models.UniqueConstraint(fields=["item", "rater"], name="one_slot_per_rater"),
        ]
        indexes = [
            # claiming: the most urgent open slot of a run.
            models.Index(fields=["run", "due_at", "id"], name="open_slots", condition=Q(state="open")),
            models.Index(fields=["rater"], name="held_slots", condition=Q(state="held")),
            models.Index(fields=["lease_until"], name="slots_running_out", condition=Q(state="held")),
            # settling: does anything of this group still wait?
            models.Index(fields=["group"], name="slots_in_hand", condition=Q(state__in=["open", "held"])),
        ]

    def __str__(self) -> str:
        return f"slot {self.pk}: {self.state}"


class Skip(models.Model):
    """Somebody passed an item over, and why; it goes to others."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="skips")
    rater = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="skips")
    reason = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "rater"], name="one_skip_per_rater")]

    def __str__(self) -> str:
        return f"{self.rater} passed over {self.item_id}"


def open_slots(items: list[Item], due_at: dict[int, object], due_of: Mapping[int, object] = MappingProxyType({})) -> list[Slot]:
    """The slots of these items, written; `due_at` by group, and `due_of` by item where that is known."""
    return Slot.objects.bulk_create(
        Slot(item=item, run_id=item.run_id, group_id=item.group_id, place=place,
             due_at=due_of.get(item.pk, due_at[item.group_id]), is_required=item.purpose not in ASIDE)
        for item in items
        for place in range(item.wanted)
    )  # fmt: skip
