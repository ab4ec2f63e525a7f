"""Deletions of runs: how far a worker is, and why it waits or failed."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.public_text import ReasonField, public_text
from apps.leases.lease import after
from apps.leases.work import LeasedWork, LeasedWorkQuerySet, WorkOver
from apps.runs.models.run import NotPossible


class RunRemovalQuerySet(LeasedWorkQuerySet["RunRemoval"]):
    def visible_to(self, user: User) -> "RunRemovalQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def unfinished(self) -> "RunRemovalQuerySet":
        """Select deletions that are open, and those that failed and can be tried again."""
        return self.exclude(state=RunRemoval.State.DONE)

    def following(self, user: User, project: str, slug: str) -> "RunRemoval | None":
        """Return the deletion, not done, of the run at this address, if the user may see it."""
        return self.visible_to(user).unfinished().filter(project__slug=project, slug=slug).first()


class RunRemoval(LeasedWork):
    """The deletion of a run, which a worker carries out; it stays when the run is gone.

    `done` grows with each small transaction, in that transaction: a worker that takes the deletion
    over continues there.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "deleting"
        DONE = "done", "deleted"
        FAILED = "failed", "failed"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="run_removals")
    run = models.OneToOneField(
        "runs.Run",
        null=True,
        on_delete=models.SET_NULL,
        related_name="removal",
        help_text="NULL once the run is gone.",
    )
    run_number = models.BigIntegerField(help_text="ID of the run, which its folder is named after.")
    slug = models.SlugField(help_text="Of the run.")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    total = models.BigIntegerField(default=0, help_text="Rows to delete, as counted at first.")
    done = models.BigIntegerField(default=0, help_text="Rows deleted so far.")
    bytes = models.BigIntegerField(default=0, help_text="Bytes of files deleted so far.")
    reason = ReasonField(
        max_length=300, blank=True, help_text="What the deletion waits for, or why it failed."
    )

    objects: ClassVar = RunRemovalQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_deletion_says_why"
            )
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="run_removals_of_a_project"),
            models.Index(
                fields=["id"],
                name="open_run_removals",
                condition=Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"deletion of run {self.slug}"

    @property
    def share(self) -> float:
        """Return the share of the rows that are deleted, from 0 to 1."""
        if self.state == self.State.DONE:
            return 1.0
        return min(0.99, self.done / self.total) if self.total else 0.0

    def wait(self, reason: str, seconds: float) -> None:
        """Give the work back: it is due again after so many seconds. The reason is shown."""
        self.held().update(
            state=self.State.WAITING,
            reason=public_text(reason)[:300],
            lease_owner="",
            lease_until=after(seconds),
            attempts=0,
        )

    def advance(self, rows: int, seconds: float) -> None:
        """Count deleted rows and extend the lease; call it in the transaction that deletes them.

        Work that gets on is not worn out, so its attempts begin anew. Raises WorkOver.
        """
        if not self.renew(seconds, done=F("done") + rows, attempts=0, reason=""):
            raise WorkOver(f"{self} belongs to another worker now")

    def finish(self) -> None:
        """Mark the deletion as done; call it in the transaction that deletes the run's row.

        Raises WorkOver.
        """
        done = {"state": self.State.DONE, "reason": "", "ended_at": Now()}
        if not self.release(**done):
            raise WorkOver(f"{self} belongs to another worker now")

    def fail(self, reason: str) -> None:
        """End the deletion with a reason; what is deleted stays deleted. Raises WorkOver."""
        words = public_text(reason)[:300] or "no reason was given"
        if not self.release(state=self.State.FAILED, reason=words, ended_at=Now()):
            raise WorkOver(f"{self} belongs to another worker now")

    @unit_of_work
    def try_again(self, by: User | None) -> None:
        """Let a worker continue a failed deletion. Raises NotPossible."""
        failed = RunRemoval.objects.filter(pk=self.pk, state=self.State.FAILED)
        if not failed.update(state=self.State.WAITING, reason="", attempts=0, ended_at=None):
            self.refresh_from_db()
            raise NotPossible(f"the {self} is {self.get_state_display()}; it has not failed")
        address = f"run {self.project.slug}/{self.slug}"
        AuditEntry.record("run deletion tried again", address, by, self.project)
