"""The weights that a run session serves: the newest published, acknowledged before any output."""

from contextlib import suppress

import structlog
from django.db.models import QuerySet

from apps.accounts.compiled_queries import compiled_query
from apps.policies.manifest import DamagedWeights, verify_folder
from apps.runs.models import Acknowledgement, NotPossible, Run, WeightVersion, Worker
from workers import weight_folders
from workers.engines.interface import Engine, LoadReport, ParityError

log = structlog.get_logger(__name__)
# Damage of the weights, not of the engine: no other engine of this kind could serve them.
UNFIT = (DamagedWeights, ParityError, ValueError, OSError)


def version_row(run: Run, version: int) -> WeightVersion:
    """Return the version's row, with its run and the run's policy."""
    versions = _versions(run.pk, version)
    if not versions:
        raise WeightVersion.DoesNotExist(f"run {run.slug} has no weight version {version}")
    return versions[0]


@compiled_query
def _versions(run: int, version: int) -> QuerySet[WeightVersion]:
    rows = WeightVersion.objects.select_related("run__policy")
    return rows.filter(run=run, version=version)


class ServedWeights:
    """The weight version that an engine serves for a run.

    `version`: None until the first one is loaded. `unacknowledged`: the version that was loaded and
    not acknowledged yet.
    """

    def __init__(self, run: Run, worker: Worker, engine: Engine) -> None:
        self.run = run
        self.worker = worker
        self.engine = engine
        self.version: int | None = None
        self.unacknowledged: tuple[WeightVersion, LoadReport] | None = None

    def follow(self, version: int) -> None:
        """Serve this published version from now on, and acknowledge it.

        Weights that cannot be served pause the run instead. Raises EngineDied.
        """
        self.acknowledge()
        if self.version is not None and version <= self.version:
            return
        row = version_row(self.run, version)
        try:
            report = self._loaded(row)
        except UNFIT as refusal:
            self._refuse(row, refusal)
            return
        self.version = version
        self.unacknowledged = (row, report)
        self.acknowledge()

    def acknowledge(self) -> None:
        """Record which weights are served: at once, or after a database outage, before output."""
        if self.unacknowledged is None:
            return
        row, report = self.unacknowledged
        Acknowledgement.record(
            row,
            self.worker,
            fingerprint=report.fingerprint,
            probe_gap=report.probe_gap,
            milliseconds=report.milliseconds,
        )
        self.unacknowledged = None
        log.info(
            "weights_loaded",
            run=self.run,
            weight_version=row.version,
            probe_gap=report.probe_gap,
            served_gap=report.served_gap,
            milliseconds=round(report.milliseconds, 1),
        )

    def _loaded(self, row: WeightVersion) -> LoadReport:
        folder = weight_folders.of_version(row)
        probe = verify_folder(folder, fingerprint=row.fingerprint).probe
        if self.version is None:
            return self.engine.start(folder, row.version, probe)
        return self.engine.load(folder, row.version, probe)

    def _refuse(self, row: WeightVersion, refusal: Exception) -> None:
        row.refresh_from_db(fields=["state"])
        if row.state == WeightVersion.State.RETIRED:
            # The trainer deleted the version while it was being read: the next attempt finds a
            # newer one.
            return
        if isinstance(refusal, DamagedWeights) and weight_folders.fetch_again(row, str(refusal)):
            return
        log.error("weights_refused", run=self.run, weight_version=row.version, reason=str(refusal))
        row.refuse(str(refusal))
        with suppress(NotPossible):  # it was paused meanwhile, or a moment ago
            self.run.pause(reason=f"weight version {row.version} was refused: {refusal}"[:500])
