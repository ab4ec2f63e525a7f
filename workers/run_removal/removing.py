"""Processing of one deletion: files first, then rows, then the run itself.

Each step can be repeated, so a worker that takes over after a kill continues where rows are left.
"""

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import F, Q

from apps.accounts.locking import is_blocked, is_conflict, lock_ids, pause, retrying
from apps.accounts.models import AuditEntry
from apps.leases.work import WorkOver
from apps.rollouts.models import Group
from apps.runs.deleting import evaluations_of
from apps.runs.models import ExportJob, Removal, Run, RunRemoval
from apps.streaming.models import Topic
from workers.leases import renewed
from workers.run_removal.rows import batches_of, count_rows, delete_rows

log = structlog.get_logger(__name__)
LOOK_AGAIN_S = 3.0  # seconds until work that had to wait is due again
GROUPS_AT_ONCE = 1_000  # which are locked together
LAST_ATTEMPTS = 5  # of the last transaction: a process may write a line about the run meanwhile


def remove_next(owner: str) -> bool:
    """Delete the oldest run that is due, or note what it waits for; return whether there was one.

    A database outage is raised: the deletion stays due.
    """
    removal = RunRemoval.objects.claim(owner, settings.LEASE_SECONDS)
    if removal is None:
        return False
    try:
        _remove(removal)
    except WorkOver as over:
        log.info("run_deletion_abandoned", removed=removal.slug, reason=str(over))
    return True


def _remove(removal: RunRemoval) -> None:
    run = removal.run
    if run is None:  # the demo has cleared it meanwhile
        removal.finish()
        return
    if reason := _waits_for(run):
        removal.wait(reason, LOOK_AGAIN_S)
        return
    with failures_noted(removal):
        _remove_files(removal)
        _await_ratings(run)
        _remove_rows(removal, run)
        _remove_run(removal, run)


@contextmanager
def failures_noted(removal: Removal) -> Iterator[None]:
    """Note what the deletion waits for, or why it failed. A database outage is raised."""
    try:
        yield
    except (WorkOver, InterfaceError):
        raise
    except OperationalError as error:
        if not (is_conflict(error) or is_blocked(error)):
            raise
        removal.wait("Its rows are locked by other work.", LOOK_AGAIN_S)
    except OSError as error:
        removal.fail(f"Its files could not be deleted: {error.strerror or error}.")
        log.warning("files_not_deleted", removed=removal.address, error=str(error))
    except Exception as error:  # the reason is stored, and the next one is deleted
        log.exception("deletion_failed", removed=removal.address)
        removal.fail(f"{type(error).__name__}: {error}")


def _waits_for(run: Run) -> str:
    """Return what must end before the run's rows can go; "" if nothing does.

    Workers finish what they hold of it, so their writes never meet missing rows.
    """
    if evaluations_of(run).exists():
        return "Waiting until the evaluations of its weights are deleted."
    if Run.objects.leased().filter(pk=run.pk).exists():
        return "Waiting for its trainer to end."
    if run.contests.exists():
        return "Waiting until the arenas of its project are deleted."
    groups = Group.objects.filter(run=run)
    if groups.filter(Q(replays__run__gt=run.pk) | Q(seeded__run__gt=run.pk)).exists():
        return "Waiting until the runs that replay its rollouts are deleted."
    if groups.filter(state__in=Group.OPEN).exists() or groups.leased().exists():
        return "Waiting for workers to give its groups back."
    return ""


def _remove_files(removal: RunRemoval) -> None:
    """Delete weights, checkpoints and exports. The model that the run began with stays."""
    remove_folders(removal, _folders(removal))


def remove_folders(removal: Removal, folders: Iterable[Path]) -> None:
    """Delete folders and count their bytes. Raises OSError."""
    with renewed(lambda: removal.renew(settings.LEASE_SECONDS), 1.0):
        for folder in folders:
            # Renamed first, so that no process loads half of a folder.
            renamed = folder.with_name(f"{folder.name}.deleted")
            if folder.is_dir():
                size = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
                shutil.rmtree(renamed, ignore_errors=True)
                folder.rename(renamed)
                type(removal).objects.filter(pk=removal.pk).update(bytes=F("bytes") + size)
                log.info("files_deleted", removed=removal.address, bytes=size)
            if renamed.is_dir():  # also that of a worker which was killed here
                shutil.rmtree(renamed)


def _folders(removal: RunRemoval) -> Iterator[Path]:
    yield settings.WEIGHTS_ROOT / f"run-{removal.run_number}"
    orders = ExportJob.objects.filter(weight_version__run=removal.run_number)
    for order in orders.values_list("pk", flat=True):
        yield settings.WEIGHTS_ROOT / "exports" / str(order)


def _await_ratings(run: Run) -> None:
    """Wait for ratings that are being saved: each holds its group until it is committed.

    PostgreSQL checks a rating's references at the commit, which would fail if its rollout were gone
    by then. Later ones find that the run is being deleted.
    """
    groups = Group.objects.filter(run=run).order_by("pk")
    after = 0
    while some := list(groups.filter(pk__gt=after).values_list("pk", flat=True)[:GROUPS_AT_ONCE]):
        with transaction.atomic():
            lock_ids(groups.filter(pk__in=some))
        after = some[-1]


def _remove_rows(removal: RunRemoval, run: Run) -> None:
    if not removal.total:
        RunRemoval.objects.filter(pk=removal.pk).update(total=count_rows(run))
    began = time.monotonic()
    rows = 0
    for table, keys in batches_of(run):
        _remove_batch(removal, table, keys)
        rows += len(keys)
    seconds = round(time.monotonic() - began, 2)
    log.info("run_rows_deleted", removed=removal.slug, rows=rows, seconds=seconds)


@retrying
def _remove_batch(removal: RunRemoval, table: type, keys: list[int]) -> None:
    with transaction.atomic():
        delete_rows(table, keys)
        removal.advance(len(keys), settings.LEASE_SECONDS)


def _remove_run(removal: RunRemoval, run: Run) -> None:
    """Delete the run's own row with everything written about it meanwhile; write the audit log."""
    for attempt in range(1, LAST_ATTEMPTS + 1):
        try:
            return _remove_run_once(removal, run)
        except IntegrityError:
            if attempt == LAST_ATTEMPTS:
                raise
        pause(attempt)
    return None


@retrying
def _remove_run_once(removal: RunRemoval, run: Run) -> None:
    with transaction.atomic():
        topic = run.topic_id
        totals = RunRemoval.objects.values("done", "bytes").get(pk=removal.pk)
        address = f"run {removal.project.slug}/{removal.slug}"
        AuditEntry.record(
            "run deleted",
            address,
            removal.by,
            removal.project,
            rows=totals["done"],
            bytes=totals["bytes"],
        )
        removal.finish()
        delete_rows(Run, [removal.run_number])
        delete_rows(Topic, [topic])
