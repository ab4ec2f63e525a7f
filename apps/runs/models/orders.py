"""Orders that turn a weight version into a policy, a branch or an export. They may take minutes."""

import shutil
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.accounts.sealing import open_secret, seal_secret
from apps.leases.work import LeasedWork, WorkOver
from apps.policies.models import Policy
from apps.runs.models.run import Run
from apps.runs.models.weights import WeightVersion
from apps.streaming import wakeups

FOLDER = "folder"
ADAPTER = "adapter"
FORM_TITLES = {
    FOLDER: "Hugging Face folder",
    "gguf-f16": "GGUF, F16",
    "gguf-q8_0": "GGUF, Q8_0",
    ADAPTER: "adapter alone",
}


class OrderOver(WorkOver):
    """Raised when another worker holds the order by now, or it is over."""


class Sending(Protocol):
    """Upload whose progress is known."""

    @property
    def share(self) -> float:
        """Return the share that is done, from 0 to 1."""


class ExportJob(LeasedWork):
    """Order for a weight version, its progress, and its result."""

    sending: Sending | None = None  # the upload of the process that works on the order

    class Kind(models.TextChoices):
        PROMOTE = "promote", "create a policy"
        BRANCH = "branch", "start a run"
        EXPORT = "export", "export"
        PUSH = "push", "push to the Hub"

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "in progress"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.RUNNING)
    TAKES_AWAY = (Kind.EXPORT, Kind.PUSH)  # need the version's folder while they are made alone
    PROGRESS = ("share",)

    weight_version = models.ForeignKey(
        WeightVersion, on_delete=models.CASCADE, related_name="orders"
    )
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    kind = models.CharField(max_length=7, choices=Kind.choices)
    options = models.JSONField(
        default=dict,
        help_text="slug, title; steps, start, stop_parent; form; repository, is_public.",
    )
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    share = models.FloatField(default=0, help_text="Share of the bytes written, from 0 to 1.")
    reason = ReasonField(max_length=500, blank=True, help_text="Why the job failed.")
    policy = models.ForeignKey(
        Policy,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The policy made from the version.",
    )
    run = models.ForeignKey(
        Run,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The run that starts from the version.",
    )
    folder = models.CharField(
        max_length=1000, blank=True, help_text="Path of the export while it exists."
    )
    bytes = models.BigIntegerField(default=0, help_text="Size of the export.")
    address = models.URLField(
        max_length=500, blank=True, help_text="URL of the commit made by a push."
    )
    # Encrypted, and emptied when the order is over.
    sealed_token = models.TextField(
        blank=True, editable=False, help_text="Encrypted Hub token for a push."
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_order_says_why"
            )
        ]
        indexes = [
            models.Index(
                fields=["id"], name="open_orders", condition=Q(state__in=["waiting", "running"])
            )
        ]

    def __str__(self) -> str:
        return f"order {self.pk}: {self.get_kind_display()}"

    @property
    def path(self) -> Path:
        """Return the folder of an export that is done."""
        return Path(self.folder)

    @property
    def shown_folder(self) -> str:
        """Return the folder relative to the weights folder, or its name if it lies elsewhere."""
        if self.path.is_relative_to(settings.WEIGHTS_ROOT):
            return str(self.path.relative_to(settings.WEIGHTS_ROOT))
        return self.path.name

    @property
    def has_folder(self) -> bool:
        return self.state == self.State.DONE and bool(self.folder) and self.path.is_dir()

    def drop_folder(self) -> None:
        """Delete the exported files; the order is kept, because it was carried out."""
        if self.has_folder:
            shutil.rmtree(self.path, ignore_errors=True)
        ExportJob.objects.filter(pk=self.pk).update(folder="", bytes=0)

    @classmethod
    @transaction.atomic
    def place(
        cls, kind: str, version: WeightVersion, by: User | None, secret: str = "", **options: object
    ) -> "ExportJob":
        """Create an order for this version and record who placed it.

        A version that is ordered as a policy or a run is pinned, so its folder stays. `secret` is
        the Hub token of a push, if one was typed. It is stored encrypted until the order ends.
        Raises NotPossible when the version's folder is gone.
        """
        if version.version and kind not in cls.TAKES_AWAY:
            version.pin(by)
        sealed = seal_secret(secret)
        order = cls.objects.create(
            weight_version=version, by=by, kind=kind, options=options, sealed_token=sealed
        )
        AuditEntry.record(
            f"weight version: {kind} ordered", version.address, by, version.run.project, **options
        )
        transaction.on_commit(lambda: wakeups.send("run_exports"), robust=True)
        return order

    @property
    def form(self) -> str:
        """Return the form that an export or a push writes; a folder for older orders."""
        return str(self.options.get("form", FOLDER))

    @property
    def title(self) -> str:
        """Name the form in words."""
        return FORM_TITLES.get(self.form, self.form)

    def token(self) -> str:
        """Return the push's token: the entered one or the installation's. Raises NotOpened."""
        return open_secret(self.sealed_token) or settings.HUB_TOKEN

    def finish(self, **result: object) -> None:
        """Mark the order as done, with its result. Raises OrderOver."""
        self._end(state=self.State.DONE, share=1.0, **result)

    def fail(self, reason: str) -> None:
        """Mark the order as failed, with the reason. Raises OrderOver."""
        self._end(state=self.State.FAILED, reason=reason[:500] or "no reason was given")

    def _end(self, **fields: object) -> None:
        if not self.release(ended_at=Now(), sealed_token="", **fields):
            raise OrderOver(f"{self} belongs to another worker now")
        self.refresh_from_db()
