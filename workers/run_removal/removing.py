"""Processing of one deletion: files first, then rows, then the run itself.

Each step can be repeated, so a worker that takes over after a kill continues where rows are left.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import F

from apps.accounts.locking import is_blocked, is_conflict, pause, retrying
from apps.accounts.models import AuditEntry
from apps.leases.work import WorkOver
from apps.rollouts.models import Group
from apps.runs.deleting import evaluations_of
from apps.runs.models import ExportJob, Run, RunRemoval
from apps.streaming.models import Topic
from workers.leases import renewed
from workers.run_removal.rows import batches_of, count_rows, delete_rows

log = structlog.get_logger(__name__)
LOOK_AGAIN_S = 3.0  # seconds until work that had to wait is due again
LAST_ATTEMPTS = 5  # of the last transaction: a process may write a line about the run meanwhile


def remove_next(owner: str) -> bool:
    """Delete the oldest run that is due, or note what it waits for; return whether there was one.

    A database outage is raised: the deletion stays due.
    """
    taken = RunRemoval.objects.claim(owner, settings.LEASE_SECONDS)
    if taken is None:
        return False
    try:
        _remove(taken)
    except WorkOver as over:
        log.info("run_deletion_abandoned", removed=taken.slug, reason=str(over))
    return True


def _remove(taken: RunRemoval) -> None:
    run = taken.run
    if run is None:  # the demo has cleared it meanwhile
        taken.finish()
        return
    if reason := _waits_for(run):
        taken.wait(reason, LOOK_AGAIN_S)
        return
    try:
        _remove_files(taken)
        _remove_rows(taken, run)
        _remove_run(taken, run)
    except (WorkOver, InterfaceError):
        raise
    except OperationalError as error:
        if not (is_conflict(error) or is_blocked(error)):
            raise
        taken.wait("Its rows are locked by other work.", LOOK_AGAIN_S)
    except OSError as error:
        taken.fail(f"Its files could not be deleted: {error.strerror or error}.")
        log.warning("run_files_not_deleted", removed=taken.slug, error=str(error))
    except Exception as error:  # the reason is stored, and the next run is deleted
        log.exception("run_deletion_failed", removed=taken.slug)
        taken.fail(f"{type(error).__name__}: {error}")


def _waits_for(run: Run) -> str:
    """Return what must end before the run's rows can go; "" if nothing does.

    Workers finish what they hold of it, so their writes never meet missing rows.
    """
    if evaluations_of(run).exists():
        return "Waiting until the evaluations of its weights are deleted."
    if Run.objects.leased().filter(pk=run.pk).exists():
        return "Waiting for its trainer to end."
    groups = Group.objects.filter(run=run)
    if groups.filter(state__in=Group.OPEN).exists() or groups.leased().exists():
        return "Waiting for workers to give its groups back."
    return ""


def _remove_files(taken: RunRemoval) -> None:
    """Delete weights, checkpoints and exports. The model that the run began with stays."""
    with renewed(lambda: taken.renew(settings.LEASE_SECONDS), 1.0):
        for folder in _folders(taken):
            # Renamed first, so that no process loads half of a folder.
            gone = folder.with_name(f"{folder.name}.deleted")
            if folder.is_dir():
                size = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
                shutil.rmtree(gone, ignore_errors=True)
                folder.rename(gone)
                RunRemoval.objects.filter(pk=taken.pk).update(bytes=F("bytes") + size)
                log.info("run_files_deleted", removed=taken.slug, bytes=size)
            if gone.is_dir():  # also that of a worker which was killed here
                shutil.rmtree(gone)


def _folders(taken: RunRemoval) -> Iterator[Path]:
    yield settings.WEIGHTS_ROOT / f"run-{taken.run_number}"
    orders = ExportJob.objects.filter(weight_version__run=taken.run_number)
    for order in orders.values_list("pk", flat=True):
        yield settings.WEIGHTS_ROOT / "exports" / str(order)


def _remove_rows(taken: RunRemoval, run: Run) -> None:
    if not taken.total:
        RunRemoval.objects.filter(pk=taken.pk).update(total=count_rows(run))
    began = time.monotonic()
    rows = 0
    for table, keys in batches_of(run):
        _remove_batch(taken, table, keys)
        rows += len(keys)
    seconds = round(time.monotonic() - began, 2)
    log.info("run_rows_deleted", removed=taken.slug, rows=rows, seconds=seconds)


@retrying
def _remove_batch(taken: RunRemoval, table: type, keys: list[int]) -> None:
    with transaction.atomic():
        delete_rows(table, keys)
        taken.advance(len(keys), settings.LEASE_SECONDS)


def _remove_run(taken: RunRemoval, run: Run) -> None:
    """Delete the run's own row with whatever was written about it meanwhile; write the audit log.

    A log line that another process writes at this moment makes the transaction fail; the next
    attempt deletes the line, too.
    """
    for attempt in range(1, LAST_ATTEMPTS + 1):
        try:
            return _remove_run_once(taken, run)
        except IntegrityError:
            if attempt == LAST_ATTEMPTS:
                raise
        pause(attempt)
    return None


@retrying
def _remove_run_once(taken: RunRemoval, run: Run) -> None:
    with transaction.atomic():
        topic = run.topic_id
        done = RunRemoval.objects.values("done", "bytes").get(pk=taken.pk)
        address = f"run {taken.project.slug}/{taken.slug}"
        AuditEntry.record(
            "run deleted", address, taken.by, taken.project, rows=done["done"], bytes=done["bytes"]
        )
        taken.finish()
        delete_rows(Run, [taken.run_number])
        delete_rows(Topic, [topic])
