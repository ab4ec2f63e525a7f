"""What somebody ordered of a weight version: a policy, a branch, an export. It may take minutes."""

import shutil
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.accounts.sealing import open_secret, seal_secret
from apps.policies.models import Policy
from apps.runs.models.run import Run
from apps.runs.models.weights import WeightVersion
from apps.streaming import wakeups
from apps.tasksets.leasing import LeasedWork

FOLDER, ADAPTER = "folder", "adapter"
FORM_TITLES = {
    FOLDER: "Hugging Face folder",
    "gguf-f16": "GGUF, F16",
    "gguf-q8_0": "GGUF, Q8_0",
    ADAPTER: "adapter alone",
}


class OrderOver(RuntimeError):
    """Another worker holds the order by now, or it is over."""


class WeightOrder(LeasedWork):
    """An order, how far it is, and what it became."""

    class Kind(models.TextChoices):
        PROMOTE = "promote", "make it a policy"
        BRANCH = "branch", "begin a run with it"
        EXPORT = "export", "export it"
        PUSH = "push", "push it to the Hub"

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "under way"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.RUNNING)
    TAKES_AWAY = (Kind.EXPORT, Kind.PUSH)  # need the version's folder while they are made alone
    PROGRESS = ("share",)

    weight_version = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="orders")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    wanted = models.JSONField(
        default=dict,
        help_text="slug, title; steps, start, stop_parent; form; repository, is_public.",
    )
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    share = models.FloatField(default=0, help_text="Of the bytes that are written, 0 to 1.")
    reason = ReasonField(max_length=500, blank=True, help_text="Why it failed.")
    policy = models.ForeignKey(Policy, null=True, on_delete=models.SET_NULL, related_name="+", help_text="What it was made into.")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+", help_text="The run that begins with it.")
    folder = models.CharField(max_length=1000, blank=True, help_text="Of an export, while it is there.")
    bytes = models.BigIntegerField(default=0, help_text="Of an export.")
    address = models.URLField(max_length=500, blank=True, help_text="Of a push: the commit.")
    # Encrypted, and emptied when the order is over.
    sealed_token = models.TextField(blank=True, editable=False, help_text="Of a push: who may.")

    class Meta:
        ordering = ["-pk"]
        constraints = [models.CheckConstraint(condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_order_says_why")]
        indexes = [models.Index(fields=["id"], name="open_orders", condition=Q(state__in=["waiting", "running"]))]

    def __str__(self) -> str:
        return f"order {self.pk}: {self.get_kind_display()}"

    @property
    def path(self) -> Path:
        """Of an export that is done."""
        return Path(self.folder)

    @property
    def shown_folder(self) -> str:
        """Where its folder lies below the weights folder, or its name if it lies elsewhere."""
        if self.path.is_relative_to(settings.WEIGHTS_ROOT):
            return str(self.path.relative_to(settings.WEIGHTS_ROOT))
        return self.path.name

    @property
    def has_folder(self) -> bool:
        return self.state == self.State.DONE and bool(self.folder) and self.path.is_dir()

    def drop_folder(self) -> None:
        """Delete what was exported; the order stays, as it was carried out."""
        if self.has_folder:
            shutil.rmtree(self.path, ignore_errors=True)
        WeightOrder.objects.filter(pk=self.pk).update(folder="", bytes=0)

    @classmethod
    @transaction.atomic
    def place(
        cls, kind: str, version: WeightVersion, by: User | None, secret: str = "", **wanted: object
    ) -> "WeightOrder":
        """Order it, on record. Its folder is kept from now on where it is a policy or a run that is ordered.

        `secret`: the Hub's token of a push, if typed; kept encrypted until the order is over.

        Raises NotPossible where the version's folder is gone.
        """
        if version.version and kind not in cls.TAKES_AWAY:
            version.pin(by)
        sealed = seal_secret(secret)
        order = cls.objects.create(
            weight_version=version, by=by, kind=kind, wanted=wanted, sealed_token=sealed
        )
        AuditEntry.record(f"weight version: {kind} ordered", version.address, by, version.run.project, **wanted)
        transaction.on_commit(lambda: wakeups.send("fill_orders"), robust=True)
        return order

    @property
    def form(self) -> str:
        """What an export or a push writes; of orders that are older than forms, a folder."""
        return self.wanted.get("form", FOLDER)

    @property
    def title(self) -> str:
        """Name the form in words."""
        return FORM_TITLES.get(self.form, self.form)

    def token(self) -> str:
        """The token of a push: what was typed, else the installation's. Raises NotOpened."""
        return open_secret(self.sealed_token) or settings.HUB_TOKEN

    def keep(self, share: float, seconds: float) -> bool:
        """Say how far it is and stay at it; whether it is still ours."""
        return bool(self._ours().update(share=share, lease_until=Now() + timedelta(seconds=seconds)))

    def finish(self, **made: object) -> None:
        """Raises OrderOver."""
        self._end(state=self.State.DONE, share=1.0, **made)

    def fail(self, reason: str) -> None:
        """Raises OrderOver."""
        self._end(state=self.State.FAILED, reason=reason[:500] or "no reason was given")

    def _end(self, **told: object) -> None:
        if not self._ours().update(lease_until=None, ended_at=Now(), sealed_token="", **told):
            raise OrderOver(f"{self} is no longer ours")
        self.refresh_from_db()
