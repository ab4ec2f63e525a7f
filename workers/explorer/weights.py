"""The weights that a seat's engine serves: the newest published, told to everybody before anything of theirs is written."""

from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from apps.policies.manifest import DamagedWeights, verify
from apps.runs.models import Acknowledgement, WeightVersion
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
    row = WeightVersion.objects.get(run=seat.run, version=version)
    try:
        report = _loaded(seat, row)
    except UNFIT as refusal:
        row.refresh_from_db(fields=["state"])
        if row.state == WeightVersion.State.RETIRED:
            return  # the trainer went on and deleted it while it was being read: the next look finds a newer one
        log.error("weights_refused", run=seat.run, weight_version=version, reason=str(refusal))
        row.refuse(str(refusal))
        seat.run.pause(reason=f"weight version {version} was refused: {refusal}"[:500])
        return
    seat.version, seat.unsaid = version, (row, report)
    acknowledge(seat)


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
    folder = Path(row.folder)
    probe = verify(folder).probe
    if seat.version is None:
        return seat.engine.start(folder, row.version, probe)
    return seat.engine.load(folder, row.version, probe)
