"""Deletions of runs and of projects: how far a worker is, and why it waits or failed."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Now

from apps.accounts.locking import unit_of_work
from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.accounts.public_text import ReasonField, public_text
from apps.leases.lease import after
from apps.leases.work import LeasedWork, LeasedWorkQuerySet, WorkOver
from apps.runs.models.run import NotPossible


class Removal(LeasedWork):
    """A deletion which a worker carries out; it stays when what it deletes is gone.

    `done` grows with each small transaction, in that transaction: a worker that takes the deletion
    over continues there.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "deleting"
        DONE = "done", "deleted"
        FAILED = "failed", "failed"

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

    class Meta:
        abstract = True

    @property
    def address(self) -> str:
        """Return the name of what is deleted, as in the audit log."""
        raise NotImplementedError

    @property
    def audited_project(self) -> Project | None:
        """Return the project whose owners read of it in the audit log."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Return what people call it."""
        raise NotImplementedError

    @property
    def share(self) -> float:
        """Return the share of the rows that are deleted, from 0 to 1."""
        if self.state == self.State.DONE:
            return 1.0
        return min(0.99, self.rows_deleted / self.total) if self.total else 0.0

    @property
    def rows_deleted(self) -> int:
        """Return how many rows are deleted."""
        return self.done

    def may_be_tried_again_by(self, user: User) -> bool:
        """Tell whether the user is an owner of the project, or an administrator."""
        if user.is_superuser:
            return True
        owners = Membership.objects.filter(project=self.audited_project, role=Membership.Role.OWNER)
        return owners.filter(user=user).exists()

    def wait(self, reason: str, seconds: float) -> None:
        """Give the work back; it is due again after this many seconds. The reason is shown."""
        self.held().update(
            state=self.State.WAITING,
            reason=public_text(reason)[:300],
            lease_owner="",
            lease_until=after(seconds),
            attempts=0,
        )

    def advance(self, rows: int, seconds: float) -> None:
        """Count deleted rows and extend the lease; call it in the transaction that deletes them.

        Its attempts are counted from 0 again, because it makes progress. Raises WorkOver.
        """
        if not self.renew(seconds, done=F("done") + rows, attempts=0, reason=""):
            raise WorkOver(f"{self} belongs to another worker now")

    def finish(self) -> None:
        """Mark the deletion as done; call it in the transaction that deletes the last row.

        Raises WorkOver.
        """
        end_fields = {"state": self.State.DONE, "reason": "", "ended_at": Now()}
        if not self.release(**end_fields):
            raise WorkOver(f"{self} belongs to another worker now")

    def fail(self, reason: str) -> None:
        """End the deletion with a reason; what is deleted stays deleted. Raises WorkOver."""
        words = public_text(reason)[:300] or "no reason was given"
        if not self.release(state=self.State.FAILED, reason=words, ended_at=Now()):
            raise WorkOver(f"{self} belongs to another worker now")

    @unit_of_work
    def try_again(self, by: User | None) -> None:
        """Let a worker continue a failed deletion. Raises NotPossible."""
        failed = type(self).objects.filter(pk=self.pk, state=self.State.FAILED)
        if not failed.update(state=self.State.WAITING, reason="", attempts=0, ended_at=None):
            self.refresh_from_db()
            raise NotPossible(f"the {self} is {self.get_state_display()}; it has not failed")
        kind = self.address.partition(" ")[0]
        AuditEntry.record(f"{kind} deletion tried again", self.address, by, self.audited_project)


class RunRemovalQuerySet(LeasedWorkQuerySet["RunRemoval"]):
    def visible_to(self, user: User) -> "RunRemovalQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def unfinished(self) -> "RunRemovalQuerySet":
        """Select deletions that are open, and those that failed and can be tried again."""
        return self.exclude(state=RunRemoval.State.DONE)

    def following(self, user: User, project: str, slug: str) -> "RunRemoval | None":
        """Return the deletion, not done, of the run at this address, if the user may see it."""
        return self.visible_to(user).unfinished().filter(project__slug=project, slug=slug).first()


class RunRemoval(Removal):
    """The deletion of a run."""

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
    def address(self) -> str:
        return f"run {self.project.slug}/{self.slug}"

    @property
    def audited_project(self) -> Project:
        return self.project

    @property
    def name(self) -> str:
        return self.slug


class ProjectRemovalQuerySet(LeasedWorkQuerySet["ProjectRemoval"]):
    def visible_to(self, user: User) -> "ProjectRemovalQuerySet":
        """Select those of the user's projects, and those that the user has ordered.

        Nobody is a member any more when the project is gone. Administrators see all.
        """
        if not user.is_authenticated:
            return self.none()
        if user.is_superuser:
            return self
        own_projects = Project.objects.filter(memberships__user=user)
        return self.filter(Q(by=user) | Q(project__in=own_projects))

    def unfinished(self) -> "ProjectRemovalQuerySet":
        """Select deletions that are open, and those that failed and can be tried again."""
        return self.exclude(state=ProjectRemoval.State.DONE)


class ProjectRemoval(Removal):
    """The deletion of a project with all that is in it.

    Its runs have deletions of their own (`RunRemoval`), which go on at the same time.
    """

    project = models.OneToOneField(
        Project,
        null=True,
        on_delete=models.SET_NULL,
        related_name="removal",
        help_text="NULL once the project is gone.",
    )
    slug = models.SlugField(help_text="Of the project.")
    title = models.CharField(max_length=200, help_text="Of the project.")
    runs = models.PositiveIntegerField(default=0, help_text="Runs that the project had.")

    objects: ClassVar = ProjectRemovalQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""),
                name="a_failed_project_deletion_says_why",
            )
        ]
        indexes = [
            models.Index(
                fields=["id"],
                name="open_project_removals",
                condition=Q(state__in=["waiting", "running"]),
            )
        ]

    def __str__(self) -> str:
        return f"deletion of project {self.slug}"

    @property
    def address(self) -> str:
        return f"project {self.slug}"

    @property
    def audited_project(self) -> Project | None:
        return self.project

    @property
    def name(self) -> str:
        return self.title

    @property
    def rows_deleted(self) -> int:
        """Return how many rows are deleted, those of the runs included."""
        of_runs = RunRemoval.objects.filter(project=self.project_id).aggregate(rows=Sum("done"))
        return self.done + (of_runs["rows"] or 0)

    @property
    def runs_deleted(self) -> int:
        """Return how many of its runs are deleted."""
        if self.project_id is None:
            return self.runs
        return RunRemoval.objects.filter(project=self.project_id, state=self.State.DONE).count()

    @unit_of_work
    def try_again(self, by: User | None) -> None:
        """Let a worker continue a failed deletion, and those of its runs. Raises NotPossible."""
        super().try_again(by)
        failed = RunRemoval.objects.filter(project=self.project_id, state=self.State.FAILED)
        failed.update(state=self.State.WAITING, reason="", attempts=0, ended_at=None)
