"""The weights of a run, version by version, and which engines serve them."""

from django.db import models, transaction
from django.db.models.functions import Now

from apps.accounts.locking import lock_one, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.runs.models.run import NotPossible, Run
from apps.runs.models.worker import Worker
from apps.streaming import bells


class WeightVersion(models.Model):
    """A set of weights of a run: staged → verified → published, then acknowledged by each engine; or refused.

    Older published versions are retired: their folders are deleted, their rows stay.
    """

    class State(models.TextChoices):
        STAGED = "staged"
        VERIFIED = "verified"
        PUBLISHED = "published"
        RETIRED = "retired"
        REFUSED = "refused"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="weight_versions")
    version = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.STAGED)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT)
    step = models.PositiveIntegerField(default=0, help_text="The update after which it was taken.")
    folder = models.CharField(max_length=1000)
    fingerprint = models.CharField(max_length=64)
    bytes = models.BigIntegerField(default=0)
    reason = ReasonField(max_length=500, blank=True, help_text="Why it was refused.")
    staged_at = models.DateTimeField(auto_now_add=True)
    verified_at = models.DateTimeField(null=True)
    published_at = models.DateTimeField(null=True)
    movement = models.JSONField(
        null=True, help_text="Relative L2 change against the parent: whole, groups, whether sampled. NULL: not measured."
    )
    pinned_at = models.DateTimeField(null=True, help_text="Since when it keeps its folder, whatever newer ones there are.")

    class Meta:
        ordering = ["-version"]
        constraints = [models.UniqueConstraint(fields=["run", "version"], name="one_weight_version_per_number")]

    def __str__(self) -> str:
        return f"{self.run_id} v{self.version}"

    def verify(self) -> None:
        WeightVersion.objects.filter(pk=self.pk, state=self.State.STAGED).update(state=self.State.VERIFIED, verified_at=Now())
        self.refresh_from_db()

    @unit_of_work
    def publish(self) -> None:
        """Offer verified weights to the engines; the run's version only ever rises."""
        Run.locked(self.run_id)
        moved = WeightVersion.objects.filter(pk=self.pk, state=self.State.VERIFIED).update(
            state=self.State.PUBLISHED, published_at=Now()
        )
        self.refresh_from_db()
        if not moved:
            raise NotPossible(f"weight version {self.version} is {self.state}, only a verified one is published")
        Run.objects.filter(pk=self.run_id, published_version__lt=self.version).update(published_version=self.version)
        self.run.topic.record("weights_published", version=self.version, step=self.step, fingerprint=self.fingerprint)
        transaction.on_commit(lambda: bells.ring("explore"), robust=True)

    @unit_of_work
    def refuse(self, reason: str) -> None:
        """Never serve it: the folder is damaged, not finite, or its engine probe does not match."""
        WeightVersion.objects.filter(pk=self.pk).update(state=self.State.REFUSED, reason=reason[:500])
        self.run.topic.record("weights_refused", version=self.version, reason=reason[:500])
        self.refresh_from_db()

    @property
    def has_folder(self) -> bool:
        """Whether its files are meant to be there: neither retired, nor refused, nor half staged."""
        return self.state in (self.State.VERIFIED, self.State.PUBLISHED)

    @unit_of_work
    def pin(self, by: User | None, is_kept: bool = True) -> None:
        """Keep its folder from retiring, or no longer. Raises NotPossible for one whose folder is gone, or is the policy's own."""
        locked = lock_one(WeightVersion.objects.filter(pk=self.pk).select_related("run__project"))
        if not locked.has_folder or locked.version == 0:
            why = "version 0 is the policy's own folder, which is kept anyway" if locked.version == 0 else f"it is {locked.state}"
            raise NotPossible(f"version {locked.version} cannot be kept or let go: {why}")
        WeightVersion.objects.filter(pk=self.pk).update(pinned_at=Now() if is_kept else None)
        what = "weight version kept" if is_kept else "weight version let go"
        AuditEntry.record(what, locked.address, by, locked.run.project)
        self.refresh_from_db()

    @property
    def address(self) -> str:
        return f"{self.run.address} v{self.version}"


class Acknowledgement(models.Model):
    """An engine's word that it serves a weight version: whose bytes, how far its logprobs are off, how long it took."""

    weight_version = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="acknowledgements")
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="acknowledgements")
    fingerprint = models.CharField(max_length=64)
    probe_gap = models.FloatField(help_text="Mean absolute difference to the trainer's probe logprobs, nats.")
    milliseconds = models.FloatField(help_text="From pause to resume.")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["weight_version", "worker"], name="one_word_per_engine")]

    def __str__(self) -> str:
        return f"{self.worker} serves {self.weight_version}"

    @classmethod
    @unit_of_work
    def record(
        cls, version: WeightVersion, worker: Worker, *, fingerprint: str, probe_gap: float, milliseconds: float
    ) -> "Acknowledgement":
        """Idempotent per engine: a restarted load says it again with its newest figures."""
        word, _ = cls.objects.update_or_create(
            weight_version=version,
            worker=worker,
            defaults={"fingerprint": fingerprint, "probe_gap": probe_gap, "milliseconds": milliseconds},
        )
        version.run.topic.record(
            "weights_acknowledged", version=version.version, worker=worker.key, probe_gap=probe_gap, milliseconds=milliseconds
        )
        return word
