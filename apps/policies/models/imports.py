"""Models that are being added: the request, and how far a worker is with it.

A worker copies, checks and seals a model in a folder that belongs to the import alone. A worker
that is killed leaves nothing, and the next one starts from the beginning.
"""

from pathlib import Path
from typing import ClassVar

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.public_text import ReasonField, public_text
from apps.leases.work import LeasedWork, LeasedWorkQuerySet, WorkOver
from apps.policies.models.policies import Policy
from apps.tasksets.import_files import OF_MODELS

NOTES_KEPT = 20
NOTE_LENGTH = 500
REASON_LENGTH = 500


class ImportOver(WorkOver, ValueError):
    """Raised if the import is no longer in the required state; the message says which it is in."""


class PolicyImportQuerySet(LeasedWorkQuerySet):
    def visible_to(self, user: User) -> "PolicyImportQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def run_by(self, user: User) -> "PolicyImportQuerySet":
        return self.filter(project__in=Project.objects.run_by(user))

    def unfinished(self) -> "PolicyImportQuerySet":
        """Select imports that have not become a model, and were not given up."""
        return self.exclude(state__in=(PolicyImport.State.DONE, PolicyImport.State.STOPPED))


class PolicyImport(LeasedWork):
    """A model that somebody adds: where it comes from, under which name, and the progress."""

    class Kind(models.TextChoices):
        HUB = "hub", "Hugging Face Hub"
        NAMED = "named", "built-in model"
        SERVER = "server", "folder or file on the server"
        UPLOAD = "upload", "upload"

    class State(models.TextChoices):
        UPLOADING = "uploading", "uploading"
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        STOPPED = "stopped", "stopped"

    OPEN = (State.WAITING, State.RUNNING)
    PROGRESS = ("done", "total")
    OVER = (State.DONE, State.STOPPED)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="policy_imports")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    kind = models.CharField(max_length=6, choices=Kind.choices)
    source = models.CharField(
        max_length=300, help_text="A Hub ID, a built-in model, or a path below RFTWEB_MODELS."
    )
    revision = models.CharField(
        max_length=100, blank=True, help_text=("Branch, tag or commit on the Hub.")
    )
    slug = models.SlugField(help_text="Slug of the new model.")
    title = models.CharField(max_length=200)
    template = models.CharField(
        max_length=20, blank=True, help_text="Chat template by name; empty keeps the model's own."
    )
    template_text = models.TextField(blank=True, help_text="Chat template that the user wrote.")
    files = models.JSONField(
        default=dict, help_text="Of an upload: the size of each file in bytes, by name."
    )
    state = models.CharField(max_length=9, choices=State.choices, default=State.WAITING)
    stage = models.CharField(max_length=100, blank=True, help_text="What a worker is doing now.")
    done = models.BigIntegerField(default=0, help_text="Bytes of the stage that are done.")
    total = models.BigIntegerField(default=0, help_text="Bytes of the stage; 0 if unknown.")
    notes = models.JSONField(default=list, help_text="What was noticed about the model.")
    reason = ReasonField(max_length=REASON_LENGTH, blank=True, help_text="Why it failed.")
    policy = models.ForeignKey(Policy, null=True, on_delete=models.SET_NULL, related_name="imports")

    objects: ClassVar = PolicyImportQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_addition_says_why"
            )
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="policy_imports_of_a_project"),
            # The workers: the oldest that is not over.
            models.Index(
                fields=["id"],
                name="open_policy_imports",
                condition=Q(state__in=["waiting", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"import {self.pk} of model {self.slug}"

    @property
    def folder(self) -> Path:
        """Return the folder that becomes the model's; slugs have no dot, so no other has it."""
        return settings.WEIGHTS_ROOT / "policies" / f"{self.project.slug}-{self.slug}.{self.pk}"

    @property
    def upload_folder(self) -> Path:
        """Return the folder of the uploaded files."""
        return settings.IMPORTS_ROOT / OF_MODELS / str(self.pk)

    @property
    def is_over(self) -> bool:
        return self.state in self.OVER

    @property
    def share(self) -> float | None:
        """Return the share of the stage that is done, from 0 to 1; None if it is unknown."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def template_name(self) -> str:
        """Return what the chat template is called on pages."""
        return "your own" if self.template_text else self.template or "the model's own"

    def note(self, sentence: str) -> None:
        """Store a note about the model for the page."""
        self.notes = [*self.notes, public_text(sentence)[:NOTE_LENGTH]][:NOTES_KEPT]
        self.held().update(notes=self.notes)

    def finish(self, policy: Policy) -> None:
        """Mark the import as done, in the transaction that creates the policy.

        Raises ImportOver if another worker holds it by now, or it was stopped.
        """
        end_fields = {"state": self.State.DONE, "policy": policy, "stage": ""}
        self._require(self.release(ended_at=Now(), **end_fields))

    def fail(self, reason: str) -> None:
        """Mark the import as failed. Raises ImportOver as `finish` does."""
        words = public_text(reason)[:REASON_LENGTH] or "no reason was given"
        failed = {"state": self.State.FAILED, "reason": words, "stage": ""}
        self._require(self.release(ended_at=Now(), **failed))

    @transaction.atomic
    def stop(self, reason: str, by: User | None = None) -> None:
        """Give the import up; its worker ends within seconds. Raises ImportOver when it is over."""
        rows = PolicyImport.objects.filter(pk=self.pk).exclude(state__in=self.OVER)
        stopped = {"state": self.State.STOPPED, "reason": reason[:REASON_LENGTH], "stage": ""}
        self._require(rows.update(**self.FREED, ended_at=Now(), **stopped))
        AuditEntry.record("model import stopped", str(self), by, self.project, reason=reason)

    def again(self, **changes: object) -> None:
        """Queue a failed import once more, with other options. Raises ImportOver."""
        rows = PolicyImport.objects.filter(pk=self.pk, state=self.State.FAILED)
        begun = {"state": self.State.WAITING, "attempts": 0, "reason": "", "notes": []}
        begun |= {"started_at": None, "ended_at": None}
        self._require(rows.update(**self.FREED, **begun, **changes))

    def uploaded(self) -> None:
        """Queue an import whose files have arrived. Raises ImportOver."""
        rows = PolicyImport.objects.filter(pk=self.pk, state=self.State.UPLOADING)
        self._require(rows.update(state=self.State.WAITING))

    def _require(self, changed: int) -> None:
        self.refresh_from_db()
        if not changed:
            raise ImportOver(f"it is already {self.get_state_display()}")
