"""One file into a taskset: all of it in one transaction, said how far every second, given up when it is not ours any more.

Before, the first rows of the file become its preview, from which whoever sent it maps columns. A data set of the Hub is fetched
into its file first.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from apps.accounts.confining import TOO_MUCH_MEMORY, TooSlow
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.checking import in_list, operators_of_import
from apps.pipelines.tasks import row_sieve
from apps.tasksets.leasing import MOST_ATTEMPTS
from apps.tasksets.looking import How, guessed
from apps.tasksets.models import ImportOver, Taskset, TasksetImport
from apps.tasksets.previewing import preview_of, storable
from apps.tasksets.reading import read
from apps.tasksets.sources import opened
from apps.tasksets.sources.hub import hub_rows
from apps.tasksets.storing import BadLines, Origin, WhyNot, store
from apps.tasksets.unpacking import unpack
from workers.leases import kept

log = structlog.get_logger(__name__)
NOT_HERE = "its file is not on this machine: RFTWEB_IMPORTS must name one folder for all of them"
SAID_EVERY = 1.0  # seconds
QUICK = "preview IS NULL AND (hub IS NULL OR bytes > 0)"
# What one process takes, as a condition in SQL. People wait for previews, so no long import goes before them.
LANES = {"all": "TRUE", "previews": QUICK, "imports": f"NOT ({QUICK})"}
MOST_FETCHED = 1000 * 1000 * 1000  # bytes


@dataclass
class Reading:
    """How far the reader is: written by it, told to the database by another thread."""

    taken: TasksetImport
    rows: int = 0
    at: int = 0
    is_ours: bool = True

    def tell(self) -> None:
        self.is_ours = self.taken.keep(self.rows, self.at, settings.LEASE_SECONDS)

    def go_on(self, rows: int, at: int) -> None:
        """Raises ImportOver when it was stopped, or taken up by another."""
        self.rows, self.at = rows, at
        if not self.is_ours:
            raise ImportOver("it is no longer ours")


def import_next(owner: str, lane: str = "all") -> bool:
    """Preview or import the oldest file that is due; says whether there was one.

    A database that goes away is raised: the import stays due.
    """
    taken = TasksetImport.objects.claim(owner, settings.LEASE_SECONDS, LANES[lane])
    if taken is None:
        return False
    try:
        if taken.attempts > MOST_ATTEMPTS:
            taken.fail(f"it was begun {MOST_ATTEMPTS} times and never came to its end")
        elif taken.needs_preview:
            _preview(taken)
        else:
            _import(taken)
    except ImportOver as over:
        log.info("import_given_up", taskset=taken.slug, reason=str(over))
    return True


def _preview(taken: TasksetImport) -> None:
    """Fetch or unpack the file where it is not here yet, and keep its first rows for the page that maps columns."""
    try:
        with kept(Reading(taken).tell):
            _bring(taken)
            how = How.read(taken.how)
            preview = preview_of(taken.path, how)
        size = _size(taken.path)
        taken.previewed(preview, guessed(preview, how).written(), size)
        taken.packed_path.unlink(missing_ok=True)
    except (ImportOver, OperationalError, InterfaceError):
        raise
    except FileNotFoundError:
        taken.fail(NOT_HERE)
    except MemoryError:
        taken.fail(TOO_MUCH_MEMORY)
    except TooSlow as slow:
        taken.fail(str(slow))
    except (ValueError, OSError) as error:
        taken.fail(storable(str(error)))
    except Exception as error:  # decoders of broken files raise anything; the next file must be read
        log.exception("preview_failed", name=taken.name)
        taken.fail(f"{type(error).__name__}: {storable(str(error))}")
    else:
        log.info("previewed", name=taken.name, bytes=size)


def _bring(taken: TasksetImport) -> None:
    """Put the file at its path, where it is not there as it was sent."""
    if taken.needs_fetching:
        _write_file(taken)
    elif taken.packed_path.exists():
        shutil.rmtree(taken.path, ignore_errors=True)  # of a worker that died
        unpack(taken.packed_path, taken.path)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _write_file(taken: TasksetImport) -> None:
    """Raises ImportOver, ValueError with what the loading code said, OSError."""
    asked, reading = taken.hub, Reading(taken)
    taken.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as nothing, kept(reading.tell, SAID_EVERY), taken.path.open("wb") as stream,
        hub_rows(asked["name"], asked["config"], asked["split"], Path(nothing)) as rows,
    ):  # fmt: skip
        for number, line in enumerate(rows.lines, start=1):
            reading.go_on(number, reading.at + len(line))
            if reading.at > MOST_FETCHED:
                raise ValueError(f"it has more than {MOST_FETCHED / 1e9:.0f} GB; manage.py taskset import --hub takes larger ones")
            stream.write(line)
        rows.require_end()
    if not reading.rows:
        raise ValueError("the data set has no rows")


def _import(taken: TasksetImport) -> None:
    try:
        taskset = _stored(taken)
    except (ImportOver, OperationalError, InterfaceError):
        raise
    except BadLines as refusal:
        lines = [[line.number, line.reason, line.excerpt] for line in refusal.lines]
        taken.fail("some of its lines cannot become tasks", lines, refusal.count)
    except IntegrityError:
        taken.fail(f"a taskset {taken.slug!r} is there already")
    except FileNotFoundError:
        taken.fail(NOT_HERE)
    except MemoryError:
        taken.fail(TOO_MUCH_MEMORY)
    except TooSlow as slow:
        taken.fail(str(slow))
    except (ValueError, OSError, OperatorFailed) as error:
        taken.fail(str(error))
    except Exception as error:  # what went wrong is kept with it, and the next file's turn comes
        log.exception("import_failed", taskset=taken.slug)
        taken.fail(f"{type(error).__name__}: {error}")
    else:
        log.info("imported", taskset=taskset.slug, tasks=taskset.size)
        taken.forget_file()


def _stored(taken: TasksetImport) -> Taskset:
    how, reading = How.read(taken.how), Reading(taken)
    source = opened(taken.path, how.format, how.split)
    rows = read(source, how.columns)  # pictures beside it are none: the folder holds other people's files
    before = taken.project.tasksets.get(slug=how.version_of) if how.version_of else None
    origin = Origin(taken.project, taken.slug, taken.slug, taken.name, by=taken.by, version_of=before)
    with kept(reading.tell, SAID_EVERY), transaction.atomic():
        progress = lambda done: reading.go_on(done, source.at)  # noqa: E731
        taskset = store(origin, rows, how.quarantine, progress, how.duplicates, _sieve_of(how, taken))
        taken.finish(taskset, reading.rows)
    return taskset


def _sieve_of(how: How, taken: TasksetImport) -> WhyNot | None:
    """Raises ConfigError where an operator cannot work any more that could when the import was started."""
    pipeline = operators_of_import(in_list(how.operators), taken.project)
    return row_sieve(pipeline, taken.project) if pipeline else None
