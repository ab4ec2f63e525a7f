"""Import of one file as a taskset in one transaction, with its progress every second.

The import is given up when its lease is lost.

Before, the first rows of the file become its preview, from which whoever sent it maps columns. A
data set of the Hub is fetched into its file first.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import Q

from apps.accounts.confining import TOO_MUCH_MEMORY, TooSlow
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.checking import in_list, operators_of_import
from apps.pipelines.tasks import row_sieve
from apps.tasksets.column_choice import ImportOptions, guess_columns
from apps.tasksets.models import ImportOver, Taskset, TasksetImport
from apps.tasksets.previewing import preview_file, storable_refusal
from apps.tasksets.reading import read_tasks
from apps.tasksets.sources import open_source
from apps.tasksets.sources.archive import unpack_archive
from apps.tasksets.sources.hub import hub_rows
from apps.tasksets.storing import BadLines, Origin, WhyNot, store_taskset
from workers.leases import renewed

log = structlog.get_logger(__name__)
NOT_HERE = (
    "the file is not on this machine: RFTWEB_IMPORTS must be the same shared folder on all machines"
)
SAID_EVERY = 1.0  # seconds
QUICK = Q(preview__isnull=True) & (Q(hub__isnull=True) | Q(bytes__gt=0))
# What one process takes. People wait for previews, so no long import goes before them.
LANES = {"all": Q(), "previews": QUICK, "imports": ~QUICK}
MAX_FETCHED_BYTES = 1000 * 1000 * 1000  # bytes


@dataclass
class Reading:
    """Progress of the reader: the reader writes it, another thread stores it in the database."""

    taskset_import: TasksetImport
    rows: int = 0
    at: int = 0
    is_ours: bool = True

    def tell(self) -> None:
        self.is_ours = self.taskset_import.renew(settings.LEASE_SECONDS, rows=self.rows, at=self.at)

    def go_on(self, rows: int, at: int) -> None:
        """Record the progress.

        Raises ImportOver if the import was stopped, or another worker took it up.
        """
        self.rows = rows
        self.at = at
        if not self.is_ours:
            raise ImportOver("it is no longer ours")


def import_next_file(owner: str, lane: str = "all") -> bool:
    """Preview or import the oldest file that is due; return whether there was one.

    A database that goes away is raised: the import stays due.
    """
    taskset_import = TasksetImport.objects.claim(owner, settings.LEASE_SECONDS, LANES[lane])
    if taskset_import is None:
        return False
    try:
        if taskset_import.needs_preview:
            _preview(taskset_import)
        else:
            _import(taskset_import)
    except ImportOver as over:
        log.info("import_abandoned", taskset=taskset_import.slug, reason=str(over))
    return True


def _preview(taskset_import: TasksetImport) -> None:
    """Fetch or unpack the file where it is not here yet, and keep its first rows for the page
    that maps columns.
    """
    try:
        with renewed(Reading(taskset_import).tell):
            _bring(taskset_import)
            how = ImportOptions.read(taskset_import.how)
            preview = preview_file(taskset_import.path, how)
        size = _size(taskset_import.path)
        taskset_import.previewed(preview, guess_columns(preview, how).written(), size)
        taskset_import.packed_path.unlink(missing_ok=True)
    except (ImportOver, OperationalError, InterfaceError):
        raise
    except FileNotFoundError:
        taskset_import.fail(NOT_HERE)
    except MemoryError:
        taskset_import.fail(TOO_MUCH_MEMORY)
    except TooSlow as slow:
        taskset_import.fail(str(slow))
    except (ValueError, OSError) as error:
        taskset_import.fail(storable_refusal(str(error)))
    except (
        Exception
    ) as error:  # decoders of broken files raise anything; the next file must be read
        log.exception("preview_failed", name=taskset_import.name)
        taskset_import.fail(f"{type(error).__name__}: {storable_refusal(str(error))}")
    else:
        log.info("import_previewed", name=taskset_import.name, bytes=size)


def _bring(taskset_import: TasksetImport) -> None:
    """Put the file at its path, where it is not there as it was sent."""
    if taskset_import.needs_fetching:
        _write_file(taskset_import)
    elif taskset_import.packed_path.exists():
        shutil.rmtree(taskset_import.path, ignore_errors=True)  # of a worker that died
        unpack_archive(taskset_import.packed_path, taskset_import.path)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _write_file(taskset_import: TasksetImport) -> None:
    """Write the rows of a hub data set to the import's file.

    Raises ImportOver, ValueError with the message of the loading code, OSError.
    """
    source = taskset_import.hub
    assert source is not None  # the import has no file yet
    reading = Reading(taskset_import)
    taskset_import.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as nothing,
        renewed(reading.tell, SAID_EVERY),
        taskset_import.path.open("wb") as stream,
        hub_rows(source["name"], source["config"], source["split"], Path(nothing)) as rows,
    ):
        for number, line in enumerate(rows.lines, start=1):
            reading.go_on(number, reading.at + len(line))
            if reading.at > MAX_FETCHED_BYTES:
                raise ValueError(
                    f"the dataset is larger than {MAX_FETCHED_BYTES / 1e9:.0f} GB; import it with "
                    "manage.py taskset import --hub"
                )
            stream.write(line)
        rows.require_end()
    if not reading.rows:
        raise ValueError("the dataset has no rows")


def _import(taskset_import: TasksetImport) -> None:
    try:
        taskset = _store_taskset(taskset_import)
    except (ImportOver, OperationalError, InterfaceError):
        raise
    except BadLines as refusal:
        lines = [[line.number, line.reason, line.excerpt] for line in refusal.lines]
        taskset_import.fail("some lines are not valid tasks", lines, refusal.count)
    except IntegrityError:
        taskset_import.fail(f"a taskset {taskset_import.slug!r} already exists")
    except FileNotFoundError:
        taskset_import.fail(NOT_HERE)
    except MemoryError:
        taskset_import.fail(TOO_MUCH_MEMORY)
    except TooSlow as slow:
        taskset_import.fail(str(slow))
    except (ValueError, OSError, OperatorFailed) as error:
        taskset_import.fail(str(error))
    except Exception as error:  # what went wrong is kept with it, and the next file's turn comes
        log.exception("import_failed", taskset=taskset_import.slug)
        taskset_import.fail(f"{type(error).__name__}: {error}")
    else:
        log.info("taskset_imported", taskset=taskset.slug, tasks=taskset.size)
        taskset_import.forget_file()


def _store_taskset(taskset_import: TasksetImport) -> Taskset:
    how = ImportOptions.read(taskset_import.how)
    reading = Reading(taskset_import)
    source = open_source(taskset_import.path, how.format, how.split)
    rows = read_tasks(
        source, how.columns
    )  # pictures beside it are none: the folder holds other people's files
    before = taskset_import.project.tasksets.get(slug=how.version_of) if how.version_of else None
    origin = Origin(
        taskset_import.project,
        taskset_import.slug,
        taskset_import.slug,
        taskset_import.name,
        by=taskset_import.by,
        version_of=before,
    )
    with renewed(reading.tell, SAID_EVERY), transaction.atomic():
        progress = lambda count: reading.go_on(count, source.at)  # noqa: E731
        taskset = store_taskset(
            origin, rows, how.quarantine, progress, how.duplicates, _sieve_of(how, taskset_import)
        )
        taskset_import.finish(taskset, reading.rows)
    return taskset


def _sieve_of(how: ImportOptions, taskset_import: TasksetImport) -> WhyNot | None:
    """Return the filter of the import's operators; None without operators.

    Raises ConfigError if an operator no longer works that did when the import was started.
    """
    pipeline = operators_of_import(in_list(how.operators), taskset_import.project)
    return row_sieve(pipeline, taskset_import.project) if pipeline else None
