"""Models of the test bench: replies that people have scored there, and the regression set.

Workers do the scoring under a lease, a few replies at a time: scorers may run code for minutes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.public_text import ReasonField
from apps.leases.work import LeasedWork
from apps.rewards.models.rewards import SAYS_WHY, finite
from apps.streaming import worker_notifications

TOLERANCE = 1e-6  # two rewards that differ by less are the same


class BenchWork(LeasedWork):
    """Base of scoring that somebody asked for on the test bench, and that a scorer worker does."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.RUNNING)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="%(class)ss")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="%(class)ss"
    )
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    reason = ReasonField(max_length=300, blank=True, help_text="Why the job failed.")

    class Meta:
        abstract = True

    def fail(self, reason: str) -> None:
        """End it with a reason, if it is still ours."""
        changes = {"state": self.State.FAILED, "reason": reason[:300] or "no reason was given"}
        self.release(**changes, ended_at=Now())

    def store_part(self, is_done: bool, **changes: object) -> bool:
        """Store a finished part and release the work. Return whether it was still ours.

        The next worker that claims it continues there, so the count of attempts starts again.
        """
        if is_done:
            changes |= {"state": self.State.DONE, "ended_at": Now()}
        return self.release(**changes, attempts=0)


class Trial(BenchWork):
    """Replies to one task that a person has scored by one scorer, and the verdicts so far.

    A reply is an object with the fields of `RolloutView`. A verdict has those of a reward: value,
    reason, details, version and seconds.
    """

    scorer = models.CharField(max_length=60)
    options = models.JSONField(default=dict)
    task = models.JSONField(
        help_text="The task as scorers receive it: prompt, answer, domain, meta."
    )
    replies = models.JSONField()
    verdicts = models.JSONField(default=list, help_text="Results for the first replies, in order.")
    form = models.JSONField(default=dict, help_text="The form's fields as entered.")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_trial_says_why"
            )
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="trials_of_a_project"),
            # The scorers: the oldest that is not over.
            models.Index(
                fields=["id"], name="open_trials", condition=Q(state__in=["waiting", "running"])
            ),
        ]

    def __str__(self) -> str:
        return f"trial {self.pk} of {self.scorer}"

    @classmethod
    @transaction.atomic
    def create(cls, project: Project, by: User | None, **fields: object) -> "Trial":
        """Queue replies for the next free scorer."""
        trial = cls.objects.create(project=project, by=by, **fields)
        AuditEntry.record(
            "scorer tried",
            f"scorer {trial.scorer}",
            by,
            project,
            trial=trial.pk,
            replies=len(trial.replies),
        )
        transaction.on_commit(lambda: worker_notifications.notify_workers("score"), robust=True)
        return trial

    def add(self, verdicts: Sequence[Mapping[str, Any]]) -> bool:
        """Store the verdicts on the next replies; return whether the trial was still ours."""
        all_verdicts = [*self.verdicts, *verdicts]
        return self.store_part(len(all_verdicts) >= len(self.replies), verdicts=all_verdicts)


class RegressionCheck(BenchWork):
    """A scoring of all cases of a project's regression set by the scorers of today."""

    cases = models.PositiveIntegerField(help_text="Number of cases at the start.")
    done = models.PositiveIntegerField(default=0, help_text="Number of cases scored so far.")
    differ = models.PositiveIntegerField(
        default=0, help_text="Number of scored cases that differ from the expected reward."
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_check_says_why"
            ),
            # Its index also serves the scorers, who look for the open ones.
            models.UniqueConstraint(
                fields=["project"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_open_check_per_project",
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="checks_of_a_project")]

    def __str__(self) -> str:
        return f"regression check {self.pk}"

    def add(self, scored: int, differ: int, is_done: bool) -> bool:
        """Count the scored cases; return whether the check was still ours."""
        return self.store_part(is_done, done=self.done + scored, differ=self.differ + differ)


class RegressionCase(models.Model):
    """A reply with the reward that a scorer must give it, and the last verdict."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="regression_cases")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="regression_cases",
    )
    scorer = models.CharField(max_length=60)
    options = models.JSONField(default=dict)
    task = models.JSONField(
        help_text="The task as scorers receive it: prompt, answer, domain, meta."
    )
    reply = models.JSONField(
        help_text="The rollout as scorers receive it, with the fields of RolloutView."
    )
    form = models.JSONField(default=dict, help_text="The test bench's fields as entered.")
    digest = models.CharField(
        max_length=64, help_text="SHA-256 of scorer, options, task and reply."
    )
    expected = models.FloatField(
        null=True, help_text="The correct reward; NULL if the scorer must give none."
    )
    note = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    value = models.FloatField(null=True, help_text="Reward in the last check.")
    reason = ReasonField(max_length=300, blank=True)
    details = models.JSONField(default=dict)
    version = models.PositiveIntegerField(
        null=True, help_text="Version of the scorer in the last check."
    )
    seconds = models.FloatField(null=True)
    checked_at = models.DateTimeField(db_default=Now())
    holds = models.BooleanField(help_text="The last check gave the expected reward.")
    checked_in = models.ForeignKey(
        RegressionCheck, null=True, on_delete=models.SET_NULL, related_name="checked_cases"
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(condition=finite("expected"), name="expected_are_finite"),
            models.CheckConstraint(condition=finite("value"), name="case_values_are_finite"),
            models.CheckConstraint(condition=SAYS_WHY, name="a_case_without_value_says_why"),
            models.UniqueConstraint(fields=["project", "digest"], name="one_case_per_scoring"),
        ]

    def __str__(self) -> str:
        return f"case {self.pk} of {self.scorer}"

    def note_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Take over a verdict, and whether it is as expected; the caller saves."""
        for name in ("value", "reason", "details", "version", "seconds"):
            setattr(self, name, verdict[name])
        self.holds = same_reward(self.expected, self.value)


VERDICT_FIELDS = ("value", "reason", "details", "version", "seconds", "holds", "checked_at")


def same_reward(first: float | None, second: float | None) -> bool:
    """Tell whether two rewards are the same; None is no reward."""
    if first is None or second is None:
        return first is second
    return abs(first - second) <= TOLERANCE


def digest_case(scorer: str, options: object, task: object, reply: object) -> str:
    """Return what two cases have in common if they score the same."""
    document = json.dumps([scorer, options, task, reply], sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()
