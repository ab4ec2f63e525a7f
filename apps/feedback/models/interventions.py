"""What people do to a rollout while it is being written: stop it, edit what it has said, or take the policy's seat."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.public_text import ReasonField
from apps.rollouts.models import Rollout


class Intervention(models.Model):
    """One act. The explorer that writes the rollout finds it by its state, does it, and says so."""

    class Kind(models.TextChoices):
        STOP = "stop", "stopped it"
        EDIT = "edit", "edited what it had said"
        SEAT = "seat", "typed the policy's turn"
        HOLD = "hold", "held it while typing"
        FREE = "free", "let it go on"

    class State(models.TextChoices):
        ASKED = "asked"
        DONE = "done"
        REFUSED = "refused"

    # Of which words of the person's own remain: such rollouts are for others to judge.
    TYPED = Q(kind__in=[Kind.EDIT, Kind.SEAT], state=State.DONE)

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="interventions")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="interventions")
    kind = models.CharField(max_length=4, choices=Kind.choices)
    turn = models.PositiveSmallIntegerField(
        null=True, help_text="Which turn of the dialogue it is about, users' counted too, from 0; NULL: the one under way."
    )
    text = models.TextField(blank=True, help_text="The text so far as the person wants it, or the turn the person typed.")
    before = models.TextField(blank=True, help_text="What the policy had said instead.")
    state = models.CharField(max_length=7, choices=State.choices, default=State.ASKED)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it was refused.")
    client_uuid = models.UUIDField(help_text="Made by the sender; the same act sent twice is one act.")
    at = models.DateTimeField(db_default=Now())
    done_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["by", "client_uuid"], name="one_intervention_per_client_uuid"),
            models.CheckConstraint(condition=~Q(state="refused") | ~Q(reason=""), name="a_refused_act_says_why"),
        ]
        indexes = [models.Index(fields=["rollout"], name="acts_to_be_done", condition=Q(state="asked"))]

    def __str__(self) -> str:
        return f"{self.by} {self.get_kind_display()}: {self.rollout_id}"
