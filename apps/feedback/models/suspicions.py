"""Suspicions of reward hacking, people's responses to them, and guessed tasks."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.feedback.models.items import Item
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.tasksets.models import Task


class Suspicion(models.Model):
    """A sign of reward hacking in a run's replies, open until somebody acts on or dismisses it."""

    class State(models.TextChoices):
        OPEN = "open"
        ACTED = "acted", "acted on"
        DISMISSED = "dismissed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="suspicions")
    kind = models.CharField(max_length=20, help_text="A key of apps.rewards.hacking.DETECTORS.")
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    words = models.TextField(help_text="What was observed and why it is suspicious.")
    metrics = models.JSONField(default=dict)
    series = models.JSONField(default=dict, help_text="Mean per step, by name: [[step, mean], …].")
    first_step = models.PositiveIntegerField(help_text="Step of the run at the first observation.")
    last_step = models.PositiveIntegerField()
    evidence = ArrayField(
        models.BigIntegerField(), default=list, help_text="IDs of the newest rollouts that show it."
    )
    tasks = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="IDs of the tasks concerned, if it concerns tasks.",
    )
    sample = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="IDs of rollouts sampled by reward and step for people to check.",
    )
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    closed_step = models.PositiveIntegerField(
        null=True, help_text="Replies sampled before this step do not raise the suspicion again."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "kind"],
                condition=Q(state="open"),
                name="one_open_suspicion_per_kind",
            ),
        ]
        indexes = [models.Index(fields=["run", "kind", "-id"], name="suspicions_of_a_run")]

    def __str__(self) -> str:
        return f"{self.kind} in {self.run_id}"


class SuspicionAction(models.Model):
    """A person's response to a suspicion. Recorded, never changed."""

    class Verb(models.TextChoices):
        ASKED = "asked", "asked people"
        DROPPED = "dropped", "left out of training"
        REWEIGHTED = "reweighted", "changed weights"
        RESCORED = "rescored", "scored again"
        DISMISSED = "dismissed"

    suspicion = models.ForeignKey(Suspicion, on_delete=models.CASCADE, related_name="actions")
    verb = models.CharField(max_length=10, choices=Verb.choices)
    reason = models.CharField(max_length=500, blank=True)
    details = models.JSONField(default=dict)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    step = models.PositiveIntegerField(help_text="Step of the run at that time.")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.by}: {self.verb} {self.suspicion_id}"


class SuspicionItem(models.Model):
    """The link from an item to the suspicion whose sample it asks people about."""

    suspicion = models.ForeignKey(Suspicion, on_delete=models.CASCADE, related_name="items")
    item = models.OneToOneField(Item, on_delete=models.CASCADE, related_name="suspicion_item")

    def __str__(self) -> str:
        return f"{self.item_id} asks for {self.suspicion_id}"


class Guess(models.Model):
    """The number of right guesses at a task by a policy that may not think.

    Kimi k1.5's check for prompts that are easy to hack.
    """

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="guesses")
    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="guesses")
    scorer = models.CharField(max_length=60)
    tries = models.PositiveSmallIntegerField()
    right = models.PositiveSmallIntegerField()
    example = models.CharField(
        max_length=300,
        blank=True,
        help_text="A correct guess, or the first one if none was correct.",
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task", "policy"], name="one_guess_per_task_and_policy"
            ),
            models.CheckConstraint(
                condition=Q(right__lte=models.F("tries")), name="no_more_right_than_tried"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.right} of {self.tries} at {self.task_id}"
