"""Models of taskset imports: previewed by a worker, mapped in the browser, read by a worker.

No page decodes a file: it shows the preview. The file is kept until its import is over. A worker
reads all of it in one transaction: one that is killed leaves nothing, and the next one starts from
the beginning.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.public_text import ReasonField, public_text
from apps.leases.work import LeasedWork, LeasedWorkQuerySet, WorkOver
from apps.tasksets.models.tasksets import Taskset

LINES_KEPT = 100  # bad lines that a failed import names


class ImportOver(WorkOver, ValueError):
    """Raised if the import is no longer in the required state; the message says which it is in."""


class TasksetImportQuerySet(LeasedWorkQuerySet):
    def run_by(self, user: User) -> "TasksetImportQuerySet":
        return self.filter(project__in=Project.objects.run_by(user))


class TasksetImport(LeasedWork):
    """Uploaded file, the options for reading it, and its progress."""

    class State(models.TextChoices):
        LOOKED_AT = "looked_at", "looked at"
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        STOPPED = "stopped", "stopped"

    OPEN = (State.WAITING, State.RUNNING)
    PROGRESS = ("rows", "at")
    OVER = (State.DONE, State.FAILED, State.STOPPED)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="taskset_imports")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="taskset_imports",
    )
    name = models.CharField(max_length=200, help_text="Name of the file or of the dataset.")
    hub = models.JSONField(
        null=True,
        help_text=(
            "Dataset on the Hugging Face Hub: name, config and split. It is downloaded first."
        ),
    )
    suffix = models.CharField(
        max_length=10,
        blank=True,
        help_text="File extension, from which the format may be detected.",
    )
    bytes = models.BigIntegerField(help_text="Size of the file; 0 until it is downloaded.")
    slug = models.SlugField(blank=True, help_text="Slug of the new taskset.")
    how = models.JSONField(
        default=dict, help_text="Import settings, see apps.tasksets.column_choice."
    )
    preview = models.JSONField(
        null=True,
        help_text="First rows, see apps.tasksets.previewing; NULL until the preview is ready.",
    )
    state = models.CharField(max_length=9, choices=State.choices, default=State.LOOKED_AT)
    rows = models.PositiveIntegerField(default=0, help_text="Rows read so far.")
    at = models.BigIntegerField(default=0, help_text="Bytes read so far.")
    reason = ReasonField(
        max_length=300, blank=True, help_text="Why the import failed, or who stopped it."
    )
    bad = models.JSONField(default=list, help_text="First invalid lines: [line, reason, excerpt].")
    bad_count = models.PositiveIntegerField(default=0, help_text="Number of invalid lines.")
    taskset = models.ForeignKey(
        Taskset, null=True, on_delete=models.SET_NULL, related_name="imports"
    )

    objects: ClassVar = TasksetImportQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_import_says_why"
            )
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="imports_of_a_project"),
            # The workers: the oldest that is not over.
            models.Index(
                fields=["id"], name="open_imports", condition=Q(state__in=["waiting", "running"])
            ),
        ]

    def __str__(self) -> str:
        return f"import {self.pk} of {self.name}"

    @property
    def path(self) -> Path:
        """Return where the uploaded file or folder is while the import is open."""
        return settings.IMPORTS_ROOT / f"{self.pk}{self.suffix}"

    @property
    def needs_fetching(self) -> bool:
        return self.hub is not None and not self.bytes

    @property
    def packed_path(self) -> Path:
        """Return the location of a zip file until a worker has unpacked it to `path`."""
        return settings.IMPORTS_ROOT / f"{self.pk}.zip"

    @property
    def needs_preview(self) -> bool:
        return self.is_open and self.preview is None

    @property
    def is_over(self) -> bool:
        return self.state in self.OVER

    @property
    def share(self) -> float:
        """Return the share of the file that was read, from 0 to 1."""
        return min(1.0, self.at / self.bytes) if self.bytes else 0.0

    def draft(self, slug: str, how: dict) -> None:
        """Keep the choices. Raises ImportOver when it was started before."""
        rows = TasksetImport.objects.filter(pk=self.pk, state=self.State.LOOKED_AT)
        self._require(rows.update(slug=slug, how=how))

    def ask_preview(self, how: dict) -> None:
        """Have a worker read the first rows in another way.

        Raises ImportOver when it was started before.
        """
        rows = TasksetImport.objects.filter(pk=self.pk, state=self.State.LOOKED_AT)
        changes = {"state": self.State.WAITING, "preview": None, "how": how, "attempts": 0}
        self._require(rows.update(**changes))

    @transaction.atomic
    def start(self, slug: str, how: dict, by: User | None = None) -> None:
        """Queue the import for the next worker. Raises ImportOver if it was started before."""
        rows = TasksetImport.objects.filter(pk=self.pk, state=self.State.LOOKED_AT)
        self._require(rows.update(state=self.State.WAITING, slug=slug, how=how, attempts=0))
        AuditEntry.record(
            "taskset import started",
            f"taskset {self.project.slug}/{slug}",
            by,
            self.project,
            file=self.name,
        )

    def previewed(self, preview: dict, how: dict, size: int) -> None:
        """Store the preview of the first rows; the import then waits for a person.

        Raises ImportOver as `finish` does.
        """
        changes = {
            "state": self.State.LOOKED_AT,
            "preview": preview,
            "how": how,
            "bytes": size,
            "rows": 0,
            "at": 0,
            "started_at": None,
        }
        self._require(self.release(**changes))

    def forget_file(self) -> None:
        """Delete the file or folder."""
        self.packed_path.unlink(missing_ok=True)
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)

    def finish(self, taskset: Taskset, rows: int) -> None:
        """Mark the import as done, in the transaction that stores the tasks.

        Raises ImportOver if another worker reads it by now, or it was stopped.
        """
        columns = {"taskset": taskset, "rows": rows, "at": F("bytes")}
        self._require(self.release(state=self.State.DONE, ended_at=Now(), **columns))

    def fail(self, reason: str, bad: Sequence[Sequence[Any]] = (), bad_count: int = 0) -> None:
        """Mark the import as failed; nothing of it was stored.

        Raises ImportOver as `finish` does.
        """
        names = {self.path: self.name, self.packed_path: self.name}
        lines = [[line, public_text(why, names), text] for line, why, text in bad[:LINES_KEPT]]
        words = public_text(reason, names)[:300] or "no reason was given"
        columns = {"reason": words, "bad": lines, "bad_count": bad_count}
        self._require(self.release(state=self.State.FAILED, ended_at=Now(), **columns))
        self.forget_file()

    def stop(self, reason: str, by: User | None = None) -> None:
        """Stop the import; nothing of it is stored. Raises ImportOver when it is over."""
        rows = TasksetImport.objects.filter(pk=self.pk).exclude(state__in=self.OVER)
        ended = {"state": self.State.STOPPED, "reason": reason[:300], "ended_at": Now()}
        with transaction.atomic():
            self._require(rows.update(**ended, **self.FREED))
            AuditEntry.record(
                "taskset import stopped", f"{self}"[:200], by, self.project, reason=reason[:300]
            )
        self.forget_file()

    def _require(self, changed: int | bool) -> None:
        names = [
            "state",
            "reason",
            "rows",
            "at",
            "bytes",
            "slug",
            "how",
            "preview",
            "taskset",
            "bad",
            "bad_count",
            "ended_at",
        ]
        self.refresh_from_db(fields=names)
        if not changed:
            raise ImportOver(f"it is already {self.get_state_display()}")
