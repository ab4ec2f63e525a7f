"""The weights of a run, version by version, and which engines serve them."""

from django.db import models, transaction
from django.db.models.functions import Coalesce, Now

from apps.accounts.locking import lock_one, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.runs.models.run import NotPossible, Run
from apps.runs.models.worker import Worker
from apps.streaming import worker_notifications


class WeightVersion(models.Model):
    """A set of weights of a run: staged → verified → published, or refused.

    Each engine acknowledges the published version that it serves. Older published versions are
    retired: their folders are deleted, and their rows stay.
    """

    class State(models.TextChoices):
        STAGED = "staged"
        VERIFIED = "verified"
        PUBLISHED = "published"
        RETIRED = "retired"
        REFUSED = "refused"

    UNPUBLISHED = (State.STAGED, State.VERIFIED)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="weight_versions")
    version = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.STAGED)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT)
    step = models.PositiveIntegerField(
        default=0, help_text="Step after which the weights were saved."
    )
    folder = models.CharField(max_length=1000)
    fingerprint = models.CharField(max_length=64)
    bytes = models.BigIntegerField(default=0)
    reason = ReasonField(max_length=500, blank=True, help_text="Why the version was refused.")
    staged_at = models.DateTimeField(auto_now_add=True)
    verified_at = models.DateTimeField(null=True)
    published_at = models.DateTimeField(null=True)
    movement = models.JSONField(
        null=True,
        help_text=(
            "Relative L2 change from the parent: total, groups, whether sampled. NULL if not "
            "measured."
        ),
    )
    pinned_at = models.DateTimeField(
        null=True, help_text="When the version was pinned. Pinned versions keep their files."
    )

    class Meta:
        ordering = ["-version"]
        constraints = [
            models.UniqueConstraint(fields=["run", "version"], name="one_weight_version_per_number")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} v{self.version}"

    def verify(self) -> None:
        WeightVersion.objects.filter(pk=self.pk, state=self.State.STAGED).update(
            state=self.State.VERIFIED, verified_at=Now()
        )
        self.refresh_from_db()

    def offer(self, run: Run) -> None:
        """Publish these weights, just verified by the caller, who holds the row of their `run`."""
        moved = WeightVersion.objects.filter(pk=self.pk, state__in=self.UNPUBLISHED).update(
            state=self.State.PUBLISHED,
            verified_at=Coalesce("verified_at", Now()),
            published_at=Now(),
        )
        if not moved:
            self.refresh_from_db()
            raise NotPossible(f"weight version {self.version} is {self.state}")
        self.state = self.State.PUBLISHED
        self._announce(run)

    @unit_of_work
    def publish(self) -> None:
        """Offer verified weights to the engines; the run's version never decreases."""
        run = Run.locked(self.run_id, "topic")
        moved = WeightVersion.objects.filter(pk=self.pk, state=self.State.VERIFIED).update(
            state=self.State.PUBLISHED, published_at=Now()
        )
        self.refresh_from_db()
        if not moved:
            raise NotPossible(
                f"weight version {self.version} is {self.state}; only a verified version can be "
                "published"
            )
        self._announce(run)

    def _announce(self, run: Run) -> None:
        Run.objects.filter(pk=run.pk, published_version__lt=self.version).update(
            published_version=self.version
        )
        run.topic.record(
            "weights_published", version=self.version, step=self.step, fingerprint=self.fingerprint
        )
        transaction.on_commit(lambda: worker_notifications.notify_workers("explore"), robust=True)

    @unit_of_work
    def refuse(self, reason: str) -> None:
        """Refuse the version, so that it is never served, with the reason.

        Its folder is damaged, its values are not finite, or its engine probe does not match.
        """
        WeightVersion.objects.filter(pk=self.pk).update(
            state=self.State.REFUSED, reason=reason[:500]
        )
        self.run.topic.record("weights_refused", version=self.version, reason=reason[:500])
        self.refresh_from_db()

    @property
    def has_folder(self) -> bool:
        """Tell whether the version's files should exist.

        They do not if it is retired, refused or only staged.
        """
        return self.state in (self.State.VERIFIED, self.State.PUBLISHED)

    def why_not_evaluated(self) -> str:
        """Return why the version cannot be evaluated any more, or yet; "" if it can."""
        if self.state == self.State.RETIRED:
            kept_count = self.run.settings.checkpoints.weights
            return (
                f"version {self.version} is retired and its files are deleted: {self.run.slug!r} "
                f"keeps the newest {kept_count} (`checkpoints.weights`); choose one of those"
            )
        if self.state != self.State.PUBLISHED:
            return (
                f"version {self.version} is {self.state}: only published versions can be evaluated"
            )
        return ""

    @unit_of_work
    def pin(self, by: User | None, is_kept: bool = True) -> None:
        """Keep the version's folder from being deleted, or allow it again.

        Raises NotPossible when the folder is gone, or is the policy's own.
        """
        locked = lock_one(WeightVersion.objects.filter(pk=self.pk).select_related("run__project"))
        if not locked.has_folder or locked.version == 0:
            why = (
                "version 0 is the policy's own folder, which is always kept"
                if locked.version == 0
                else f"it is {locked.state}"
            )
            raise NotPossible(f"you cannot change whether version {locked.version} is kept: {why}")
        WeightVersion.objects.filter(pk=self.pk).update(pinned_at=Now() if is_kept else None)
        what = "weight version kept" if is_kept else "weight version let go"
        AuditEntry.record(what, locked.address, by, locked.run.project)
        self.refresh_from_db()

    @property
    def address(self) -> str:
        return f"{self.run.address} v{self.version}"


class Acknowledgement(models.Model):
    """Confirmation by an engine that it serves a weight version.

    It holds the fingerprint, the gap of the logprobs, and the time of the load.
    """

    weight_version = models.ForeignKey(
        WeightVersion, on_delete=models.CASCADE, related_name="acknowledgements"
    )
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="acknowledgements")
    fingerprint = models.CharField(max_length=64)
    probe_gap = models.FloatField(
        help_text="Mean absolute difference from the trainer's probe logprobs, in nats."
    )
    milliseconds = models.FloatField(help_text="Milliseconds from pause to resume.")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["weight_version", "worker"], name="one_word_per_engine")
        ]

    def __str__(self) -> str:
        return f"{self.worker} serves {self.weight_version}"

    @classmethod
    @unit_of_work
    def record(
        cls,
        version: WeightVersion,
        worker: Worker,
        *,
        fingerprint: str,
        probe_gap: float,
        milliseconds: float,
    ) -> "Acknowledgement":
        """Record that an engine has loaded the version; a repeated load updates the numbers."""
        word, _ = cls.objects.update_or_create(
            weight_version=version,
            worker=worker,
            defaults={
                "fingerprint": fingerprint,
                "probe_gap": probe_gap,
                "milliseconds": milliseconds,
            },
        )
        version.run.topic.record(
            "weights_acknowledged",
            version=version.version,
            worker=worker.key,
            probe_gap=probe_gap,
            milliseconds=milliseconds,
        )
        return word
