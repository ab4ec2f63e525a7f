"""Files of deleted models, until a worker has removed them."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.public_text import ReasonField, public_text
from apps.leases.work import LeasedWork, LeasedWorkQuerySet


class PolicyRemovalQuerySet(LeasedWorkQuerySet):
    def visible_to(self, user: User) -> "PolicyRemovalQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class PolicyRemoval(LeasedWork):
    """The folder of a deleted model, which a worker removes."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    slug = models.SlugField(help_text="Of the model that was deleted.")
    folder = models.CharField(max_length=1000)
    state = models.CharField(max_length=9, choices=State.choices, default=State.WAITING)
    reason = ReasonField(
        max_length=300, blank=True, help_text="Why files are still there, if they are."
    )

    objects: ClassVar = PolicyRemovalQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(
                fields=["id"],
                name="open_policy_removals",
                condition=Q(state__in=["waiting", "running"]),
            )
        ]

    def __str__(self) -> str:
        return f"removal {self.pk} of model {self.slug}"

    def end(self, reason: str = "") -> None:
        """Mark the removal as done, or as failed for this reason."""
        state = self.State.FAILED if reason else self.State.DONE
        words = public_text(reason)[:300]
        self.release(state=state, reason=words, ended_at=Now())

    def fail(self, reason: str) -> None:
        """Mark the removal as failed."""
        self.end(reason)
