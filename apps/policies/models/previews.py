"""Previews of chat templates: a conversation as a tokenizer writes it, rendered by a worker."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.public_text import ReasonField, public_text
from apps.leases.work import LeasedWork, LeasedWorkQuerySet
from apps.policies.models.policies import Policy


class TemplatePreviewQuerySet(LeasedWorkQuerySet):
    def of(self, user: User) -> "TemplatePreviewQuerySet":
        """Select the user's own previews of models that the user may still see."""
        return self.filter(by=user, policy__in=Policy.objects.visible_to(user))


class TemplatePreview(LeasedWork):
    """A conversation and a chat template, and the tokens that they become."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="previews")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    messages = models.JSONField(help_text="The conversation: role and content of each message.")
    template = models.CharField(
        max_length=20, blank=True, help_text="Chat template by name; empty keeps the model's own."
    )
    template_text = models.TextField(blank=True, help_text="Chat template that the user wrote.")
    state = models.CharField(max_length=9, choices=State.choices, default=State.WAITING)
    pieces = models.JSONField(
        default=list, help_text="The rendered text: [text, whether it is a control token]."
    )
    tokens = models.PositiveIntegerField(default=0, help_text="Tokens of the whole text.")
    reason = ReasonField(max_length=300, blank=True, help_text="Why nothing could be rendered.")

    objects: ClassVar = TemplatePreviewQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(
                fields=["id"],
                name="open_template_previews",
                condition=Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"preview {self.pk} of {self.policy}"

    def finish(self, pieces: list[list], tokens: int) -> None:
        """Store the rendered conversation, if nobody has claimed the preview after us."""
        storable = [[text.replace("\0", "\ufffd"), mark] for text, mark in pieces]
        self._end(state=self.State.DONE, pieces=storable, tokens=tokens)

    def fail(self, reason: str) -> None:
        """Mark the preview as failed, if nobody has claimed it after us."""
        self._end(state=self.State.FAILED, reason=public_text(reason)[:300])

    def _end(self, **changes: object) -> None:
        self.release(ended_at=Now(), **changes)
