"""Processing of one order: progress is recorded every second; work stops when the lease is lost."""

import math
import shutil
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError

from apps.accounts.models import AuditEntry
from apps.policies.as_gguf import BYTES_PER_NUMBER
from apps.policies.copying import NotCopied
from apps.policies.manifest import DamagedWeights, read_manifest
from apps.policies.models import Policy
from apps.runs.config import ConfigError
from apps.runs.models import ExportJob, NotPossible, OrderOver
from apps.runs.promoting import branch, folder_of_policy, name_of_policy, promoted
from apps.runs.weight_downloads import name_of_form, write_form
from workers.exporting.destination import Destination, NotPushed, Progress, push_folder
from workers.leases import renewed

log = structlog.get_logger(__name__)
SAID_EVERY = 1.0  # seconds between two progress updates
REFUSALS = (
    NotCopied,
    NotPushed,
    DamagedWeights,
    NotPossible,
    ConfigError,
    OSError,
    ValueError,  # includes NotOpened
)
ATTEMPT = "attempt-"
WRITTEN = 0.5  # progress of a push when its files are written and not uploaded


def run_next(owner: str) -> bool:
    """Process the oldest due order; return whether there was one.

    A database outage is raised: the order stays due.
    """
    order = ExportJob.objects.claim(owner, settings.LEASE_SECONDS)
    if order is None:
        return False
    try:
        _run(order)
    except OrderOver as over:
        shutil.rmtree(folder_of_attempt(order), ignore_errors=True)
        log.info("export_job_abandoned", order=order.pk, reason=str(over))
    return True


def _run(order: ExportJob) -> None:
    try:
        with renewed(lambda: order.renew(settings.LEASE_SECONDS, share=_share(order)), SAID_EVERY):
            result = MAKE[ExportJob.Kind(order.kind)](order)
    except (OrderOver, OperationalError, InterfaceError):
        raise
    except IntegrityError:
        order.fail(f"the name {order.options.get('slug')!r} is already used; choose another name")
    except REFUSALS as error:
        order.fail(str(error))
    except Exception as error:  # the error is stored with the order, and the next one is processed
        log.exception("export_job_failed", order=order.pk)
        order.fail(f"{type(error).__name__}: {error}")
    else:
        order.finish(**result)
        log.info(
            "export_job_done",
            order=order.pk,
            kind=order.kind,
            weight_version=order.weight_version.version,
        )


def _promote(order: ExportJob) -> dict[str, Any]:
    return {"policy": _policy(order, order.options["slug"], order.options["title"])}


def _branch(order: ExportJob) -> dict[str, Any]:
    """Make the policy and run of a branch; a run that an earlier attempt made is used."""
    policy = _policy(order)
    existing = order.weight_version.branches.filter(slug=order.options["slug"]).first()
    return {
        "policy": policy,
        "run": existing or branch(order.weight_version, policy, order.by, order.options),
    }


def _policy(order: ExportJob, slug: str = "", title: str = "") -> Policy:
    version = order.weight_version
    policy = promoted(version, order.by, slug, title)
    AuditEntry.record(
        "policy created from weight version",
        version.address,
        order.by,
        version.run.project,
        policy=policy.slug,
    )
    return policy


def _export(order: ExportJob) -> dict[str, Any]:
    folder = folder_of_export(order)
    try:
        return {"bytes": _write_export(order, folder), "folder": str(folder)}
    except BaseException:
        shutil.rmtree(folder_of_attempt(order), ignore_errors=True)
        raise


def _push(order: ExportJob) -> dict[str, Any]:
    """Write the export, upload it, and delete the local files. Raises NotPushed."""
    if not (token := order.token()):
        raise NotPushed("token: none was entered, and RFTWEB_HUB_TOKEN is not set for this worker")
    folder = folder_of_export(order)
    version = order.weight_version
    repository = order.options["repository"]
    is_public = order.options["is_public"]
    try:
        size = _write_export(order, folder)
        progress = Progress(size)
        order.sending = progress
        to = Destination(repository, token, not is_public, settings.HUB_ENDPOINT)
        address = push_folder(folder, to, f"{version.address}, {order.form}", progress)
    finally:
        shutil.rmtree(folder_of_attempt(order), ignore_errors=True)
    details = {
        "repository": repository,
        "form": order.form,
        "commit": address,
        "is_public": is_public,
    }
    project = version.run.project
    AuditEntry.record("weight version pushed", version.address, order.by, project, **details)
    return {"bytes": size, "address": address}


def _write_export(order: ExportJob, folder: Path) -> int:
    _remove_earlier_attempts(order)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return write_form(order.weight_version, order.form, folder)


def _remove_earlier_attempts(order: ExportJob) -> None:
    """Remove what attempts that died have left, but nothing of a later one.

    This worker may have been suspended until another one took the order.
    """
    ours = folder_of_attempt(order)
    for left in ours.parent.glob("*"):
        number = left.name.removeprefix(ATTEMPT)
        if not number.isdigit() or int(number) <= order.fence:
            shutil.rmtree(left, ignore_errors=True)


def folder_of_export(order: ExportJob) -> Path:
    return folder_of_attempt(order) / name_of_form(order.weight_version, order.form)


def folder_of_attempt(order: ExportJob) -> Path:
    """Return the folder of this claim on the order, which no other claim writes or deletes."""
    return settings.WEIGHTS_ROOT / "exports" / str(order.pk) / f"{ATTEMPT}{order.fence}"


MAKE = {
    ExportJob.Kind.PROMOTE: _promote,
    ExportJob.Kind.BRANCH: _branch,
    ExportJob.Kind.EXPORT: _export,
    ExportJob.Kind.PUSH: _push,
}


def _share(order: ExportJob) -> float:
    """Return the progress of the order: the share of bytes written, and for a push then sent."""
    if order.kind != ExportJob.Kind.PUSH:
        return min(0.99, _share_written(order))
    if sending := order.sending:
        return min(0.99, WRITTEN + (1 - WRITTEN) * sending.share)
    return WRITTEN * min(1.0, _share_written(order))


def _share_written(order: ExportJob) -> float:
    """Return the share of the bytes written so far.

    Files have temporary names until all are done.
    """
    written = sum(path.stat().st_size for path in _place(order).glob("*") if path.is_file())
    return written / max(_expected(order), 1)


def _expected(order: ExportJob) -> float:
    """Return the approximate number of bytes to write, for whole weights or a GGUF file."""
    version = order.weight_version
    base = version.run.weight_versions.filter(version=0).first()
    if base and order.form in BYTES_PER_NUMBER:
        tensors = read_manifest(base.folder).tensors.values()
        return sum(math.prod(tensor.shape) for tensor in tensors) * BYTES_PER_NUMBER[order.form]
    return max(base.bytes if base else 0, version.bytes)


def _place(order: ExportJob) -> Path:
    """Return the folder that is being written; for a branch, that of its run's first policy."""
    if order.kind in ExportJob.TAKES_AWAY:
        place = folder_of_export(order)
    else:
        slug = (
            order.options["slug"]
            if order.kind == ExportJob.Kind.PROMOTE
            else name_of_policy(order.weight_version)
        )
        place = folder_of_policy(order.weight_version.run, slug)
    # The name may have a suffix (…-2), and is temporary (.PID.tmp) until all is written.
    unfinished = [
        path for end in (".*", "-[0-9]*.*") for path in place.parent.glob(f"{place.name}{end}")
    ]
    return max(unfinished, key=lambda path: path.stat().st_mtime, default=place)
