"""Offspring: rollouts that are made of others, to be imitated. Each names its parent and how much of it it is."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.public_text import ReasonField
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task

LONGEST_REASON = 200


class OffspringQuerySet(models.QuerySet):
    def waiting(self) -> "OffspringQuerySet":
        """What is to become a rollout, and is none yet."""
        return self.filter(rollout=None, refused="")

    def refuse(self, why: str) -> int:
        """Those of them that wait will be no rollouts; returns how many."""
        return self.waiting().update(refused=why[:LONGEST_REASON])


class Offspring(models.Model):
    """That an operator makes a rollout of another one, its parent, to be imitated by the expert loss.

    The parent's answer to another `task`, which asks for what it has reached; or the parent's first `tokens`, to the same task.
    `rollout` is there once the trainer, which has the tokenizer, has taken it in.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="offspring")
    of = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="offspring")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    tokens = models.PositiveIntegerField(help_text="Of the parent's completion, from its first.")
    key = models.CharField(max_length=64, help_text="sha256 of what it teaches: a run makes it once.")
    rollout = models.OneToOneField(Rollout, null=True, on_delete=models.CASCADE, related_name="descent")
    refused = models.CharField(max_length=LONGEST_REASON, blank=True, default="", db_default="", help_text="Why none comes.")
    place = models.PositiveSmallIntegerField(help_text="The operator's number in the pipeline, from 0.")
    operator = models.CharField(max_length=60)
    reason = ReasonField(max_length=LONGEST_REASON)
    at = models.DateTimeField(db_default=Now())

    objects = OffspringQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="one_offspring_per_key"),
            models.CheckConstraint(condition=Q(rollout=None) | Q(refused=""), name="what_is_refused_is_not_there"),
        ]
        indexes = [
            # OffspringQuerySet.waiting, asked before each update.
            models.Index(fields=["run"], name="offspring_to_take_in", condition=Q(rollout=None, refused="")),
        ]

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}"
