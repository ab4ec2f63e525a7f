"""Offspring: rollouts that operators derive from other rollouts, to be imitated.

Each names its parent and how many of the parent's tokens it takes.
"""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.public_text import ReasonField
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task

MAX_REASON_LENGTH = 200


class OffspringQuerySet(models.QuerySet[Any]):  # rows also have annotations
    def waiting(self) -> "OffspringQuerySet":
        """Return the offspring that have not become a rollout yet and were not refused."""
        return self.filter(rollout=None, refused="")

    def refuse(self, why: str) -> int:
        """Refuse the waiting offspring, with the reason; return how many."""
        return self.waiting().update(refused=why[:MAX_REASON_LENGTH])


class Offspring(models.Model):
    """An operator's order to derive a rollout from another one, its parent, for the expert loss.

    Its content is either the parent's answer under another `task`, one that asks for what the
    parent reached, or the parent's first `tokens` under the same task. `rollout` is set once the
    trainer, which has the tokenizer, has created it.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="offspring")
    of = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="offspring")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    tokens = models.PositiveIntegerField(
        help_text="Number of tokens kept from the start of the parent's completion."
    )
    key = models.CharField(max_length=64, help_text="SHA-256 of the content; unique within a run.")
    rollout = models.OneToOneField(
        Rollout, null=True, on_delete=models.CASCADE, related_name="descent"
    )
    refused = models.CharField(
        max_length=MAX_REASON_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="Why no rollout was made.",
    )
    place = models.PositiveSmallIntegerField(
        help_text="Index of the operator in the pipeline, from 0."
    )
    operator = models.CharField(max_length=60)
    reason = ReasonField(max_length=MAX_REASON_LENGTH)
    at = models.DateTimeField(db_default=Now())

    objects = OffspringQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="one_offspring_per_key"),
            models.CheckConstraint(
                condition=Q(rollout=None) | Q(refused=""), name="what_is_refused_is_not_there"
            ),
        ]
        indexes = [
            # OffspringQuerySet.waiting, asked before each step.
            models.Index(
                fields=["run"], name="offspring_to_take_in", condition=Q(rollout=None, refused="")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}"
