"""The weights that a seat's engine serves: the newest published, told to everybody before anything of theirs is written."""

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from apps.policies.manifest import DamagedWeights, verify
from apps.runs.models import Acknowledgement, NotPossible, Run, WeightVersion
from workers import weight_folders
from workers.engines.interface import LoadReport, ParityError

if TYPE_CHECKING:
    from workers.explorer.seat import Seat

log = structlog.get_logger(__name__)
# What tells of the weights, not of the engine: no other engine of this kind would serve them either.
UNFIT = (DamagedWeights, ParityError, ValueError, OSError)


def follow(seat: "Seat", version: int) -> None:
    """Serve this published version from now on, and say so. Weights that cannot be served pause the run instead."""
    acknowledge(seat)
    if seat.version is not None and version <= seat.version:
        return
    row = version_row(seat.run, version)
    try:
        report = _loaded(seat, row)
    except UNFIT as refusal:
        row.refresh_from_db(fields=["state"])
        if row.state == WeightVersion.State.RETIRED:
            return  # the trainer went on and deleted it while it was being read: the next look finds a newer one
        if isinstance(refusal, DamagedWeights) and weight_folders.fetch_again(row, str(refusal)):
            return
        log.error("weights_refused", run=seat.run, weight_version=version, reason=str(refusal))
        row.refuse(str(refusal))
        with suppress(NotPossible):  # it was paused meanwhile, or at its first look a moment ago
            seat.run.pause(reason=f"weight version {version} was refused: {refusal}"[:500])
        return
    seat.version, seat.unsaid = version, (row, report)
    acknowledge(seat)


def version_row(run: Run, version: int) -> WeightVersion:
    """The version's row, with its run and the run's policy."""
    rows = WeightVersion.objects.select_related("run__policy")
    return rows.get(run=run, version=version)


def acknowledge(seat: "Seat") -> None:
    """Say which weights are served: at once, or, when the database was away then, before anything of theirs is written."""
    if seat.unsaid is None:
        return
    row, report = seat.unsaid
    Acknowledgement.record(
        row, seat.worker, fingerprint=report.fingerprint, probe_gap=report.probe_gap, milliseconds=report.milliseconds
    )
    seat.unsaid = None
    log.info(
        "weights_loaded",
        run=seat.run,
        weight_version=row.version,
        probe_gap=report.probe_gap,
        served_gap=report.served_gap,
        milliseconds=round(report.milliseconds, 1),
    )


def _loaded(seat: "Seat", row: WeightVersion) -> LoadReport:
    folder = weight_folders.of_version(row)
    probe = verify(folder).probe
    if seat.version is None:
        return seat.engine.start(folder, row.version, probe)
    return seat.engine.load(folder, row.version, probe)
