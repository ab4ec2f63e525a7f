"""Files of tasks at a terminal: import from a file, a folder or the Hub, export, and the overlap of two sets."""

import json
import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from django.core.management.base import CommandError
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.accounts.redacting import Redactor
from apps.pipelines.applying import OperatorFailed
from apps.tasksets.duplicates import CHOICES, KEEP
from apps.tasksets.exporting import TYPES, pieces
from apps.tasksets.importing import import_file
from apps.tasksets.models import Taskset
from apps.tasksets.overlap import THRESHOLD, Pair, TooMuch
from apps.tasksets.overlapping import compare
from apps.tasksets.reading import Columns, read_jsonl
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources import FORMATS
from apps.tasksets.sources.hub import HubRows, hub_rows
from apps.tasksets.sources.records import BadLine
from apps.tasksets.storing import BadLines, Origin, store
from apps.tasksets.versions import slug_of_next
from rftweb.management.console import REDACT, bar
from rftweb.management.taskset_operators import add_operators, sieve_from

SHOWN = 20  # bad lines printed


def add_import(verbs: _SubParsersAction) -> ArgumentParser:
    importing = verbs.add_parser("import", help="store the tasks of a file, a folder or a data set of the Hub")
    importing.add_argument(
        "file", help="JSON lines, CSV, Parquet, Arrow; a folder of these or of `save_to_disk`; with --hub its name"
    )
    importing.add_argument("--slug", help="name of the taskset (default: the file's)")
    importing.add_argument("--title", default="")
    importing.add_argument(
        "--version-of", metavar="TASKSET", help="the next version of this set (default name: its first one's with -v2, -v3 …)"
    )
    importing.add_argument("--format", choices=FORMATS, default="auto", help="of the file (default: as it looks)")
    importing.add_argument("--hub", action="store_true", help="download from the Hugging Face Hub; nothing else ever does")
    importing.add_argument("--config", default="", help="of a data set of the Hub that has several")
    importing.add_argument("--split", default="", help="of a folder or a data set of the Hub that has several")
    importing.add_argument("--prompt", default=Columns.prompt, help="column of the prompt: a text, or chat messages")
    importing.add_argument("--answer", default=Columns.answer, help="column of the answer that scorers judge by")
    importing.add_argument("--answer-key", default=Columns.answer_key, help="what scorers call an answer that is no object")
    importing.add_argument("--no-answer", action="store_true", help="the file has no answers")
    importing.add_argument("--domain", default=Columns.domain, help="column of the domain")
    importing.add_argument("--follow-ups", default=Columns.follow_ups, help="column of what the user says after each answer")
    importing.add_argument("--meta", action="append", default=[], help="a column to keep in the task's meta; may be said again")
    importing.add_argument(
        "--duplicates",
        choices=CHOICES,
        default=KEEP,
        help="tasks that an earlier line says: keep, leave out and list, or refuse the file",
    )
    add_operators(importing)
    importing.add_argument("--quarantine", action="store_true", help="set bad lines aside instead of refusing the file")
    return importing


def imported(project: Project, options: dict) -> Taskset:
    """The new taskset. Raises CommandError with what is wrong, bad lines by their numbers."""
    name, path = options["file"], Path(options["file"])
    if not options["hub"] and not path.exists():
        raise CommandError(f"{path}: there is no such file")
    before = _before(project, options["version_of"]) if options["version_of"] else None
    named = slug_of_next(before) if before else re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:50]
    slug = options["slug"] or named
    origin = Origin(project, slug, options["title"] or slug, _source(options), version_of=before)
    columns = Columns(
        options["prompt"], None if options["no_answer"] else options["answer"], options["follow_ups"], options["domain"],
        answer_key=options["answer_key"], more_meta=tuple(options["meta"]),
    )  # fmt: skip
    options = {**options, "why_not": sieve_from(project, options)}
    try:
        return _from_hub(origin, columns, options) if options["hub"] else _from_file(path, origin, columns, options)
    except BadLines as refusal:
        raise CommandError(_listed(refusal)) from None
    except IntegrityError:
        raise CommandError(f"--slug: a taskset {slug!r} is there already; choose another, or store it with --version-of") from None
    except (ValueError, OSError, OperatorFailed) as error:
        raise CommandError(f"{name}: {error}") from None


def _before(project: Project, slug: str) -> Taskset:
    """Raises CommandError."""
    found = project.tasksets.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"--version-of: no taskset {slug!r} in {project.slug}")
    return found


def _source(options: dict) -> str:
    parts = [options["file"] if options["hub"] else Path(options["file"]).resolve().name, options["config"], options["split"]]
    return " ".join(["Hub:" if options["hub"] else "", *parts]).strip()[:200]


def _from_file(path: Path, origin: Origin, columns: Columns, options: dict) -> Taskset:
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    with bar(f"reading {path.name}", size) as progress:
        how = (options["quarantine"], progress, options["format"], options["split"], options["duplicates"], options["why_not"])
        return import_file(path, origin, columns, *how)


def _from_hub(origin: Origin, columns: Columns, options: dict) -> Taskset:
    asked = options["file"], options["config"], options["split"]
    with bar(f"rows of {options['file']}", None) as progress, hub_rows(*asked) as rows:
        how = (options["quarantine"], progress, options["duplicates"], options["why_not"])
        return store(origin, _all_of(rows, columns), *how)


def _all_of(rows: HubRows, columns: Columns) -> Iterator[TaskRow | BadLine]:
    """Its tasks and bad lines. Raises ValueError when it did not come to the data set's end."""
    yield from read_jsonl(rows.lines, columns)
    rows.require_end()


def _listed(refusal: BadLines) -> str:
    lines = [f"  line {line.number}: {line.reason}   {line.excerpt}" for line in refusal.lines[:SHOWN]]
    more = [f"  and {refusal.count - SHOWN} more"] if refusal.count > SHOWN else []
    advice = "nothing was stored; mend the lines, or set them aside: --quarantine bad ones, --duplicates drop repeated ones"
    return "\n".join([f"{refusal.count} lines cannot become tasks:", *lines, *more, advice])


# -- export and overlap ------------------------------------------------------------------------------------------------------


def add_export(verbs: _SubParsersAction) -> ArgumentParser:
    exporting = verbs.add_parser("export", help="write the tasks to a file, which an import makes the same set of")
    exporting.add_argument("slug", help="of the taskset")
    exporting.add_argument("file", type=Path, help=f"its end says the format: {', '.join(TYPES)}")
    exporting.add_argument("--force", action="store_true", help="write over a file that is there")
    exporting.add_argument("--redact", action="store_true", help=REDACT)
    return exporting


def exported(taskset: Taskset, path: Path, force: bool, redact: bool) -> str:
    """Write the file and say what it holds. It has its name when it is whole; raises CommandError."""
    format = path.suffix.lower().removeprefix(".")
    if format not in TYPES:
        raise CommandError(f"{path}: must end with .{', .'.join(TYPES)}")
    if path.exists() and not force:
        raise CommandError(f"{path}: is there already; say --force to write over it")
    partial, redactor = path.with_name(f".{path.name}.part"), Redactor() if redact else None
    try:
        with partial.open("wb") as stream, bar(f"writing {path.name}", taskset.size) as progress:
            stream.writelines(pieces(taskset, format, progress, redactor))
        partial.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    if redactor:
        return f"{path}: {taskset.size} tasks, redacted: {redactor.words}"
    told = f"version {taskset.version} of {taskset.first}, " if taskset.first else ""
    return f"{path}: {taskset.size} tasks, {told}digest {taskset.digest or 'none, for it grows'}"


def add_overlap(verbs: _SubParsersAction) -> ArgumentParser:
    overlapping = verbs.add_parser(
        "overlap", help="which tasks of one set another one has as well, as a test set in a training set"
    )
    overlapping.add_argument("checked", help="slug of the set that is checked, the smaller one: it is held in memory")
    overlapping.add_argument("other", help="slug of the set that may have its tasks")
    overlapping.add_argument("--threshold", type=float, default=THRESHOLD, help="share of a task's word 8-grams that makes it near")
    overlapping.add_argument("--pairs", type=Path, help="write every pair to this file, as JSON lines")
    return overlapping


def overlapped(checked: Taskset, other: Taskset, options: dict) -> list[str]:
    """What there is to say of it, line by line. Raises CommandError."""
    if not 0 < options["threshold"] <= 1:
        raise CommandError("--threshold: must be above 0, and at most 1")
    try:
        with ExitStack() as held:
            tell = _teller(held, options["pairs"])
            progress = held.enter_context(bar(f"comparing {checked.slug} with {other.slug}", checked.size + other.size))
            found = compare(checked, other, options["threshold"], tell, progress)
    except TooMuch as error:
        raise CommandError(f"{checked.slug}: {error}") from None
    except OSError as error:
        raise CommandError(f"--pairs: {error}") from None
    said = f"{checked.slug}: {found.exact} of {found.tasks} tasks are in {other.slug} exactly, {found.near} more nearly"
    lines = [
        f"  {pair.checked:>8} {pair.other:>8}  {'exact' if pair.is_exact else f'{pair.share:.2f}'}" for pair in found.pairs[:SHOWN]
    ]
    head = [f"  {checked.slug[:8]:>8} {other.slug[:8]:>8}  share"] if lines else []
    more = [f"  and {found.count - SHOWN} more pairs; --pairs FILE has them all"] if found.count > SHOWN else []
    return [f"{said} ({found.share:.1%})", *head, *lines, *more]


def _teller(held: ExitStack, path: Path | None) -> Callable[[Pair], object]:
    if path is None:
        return lambda pair: None
    stream = held.enter_context(path.open("w"))
    return lambda pair: stream.write(json.dumps(asdict(pair)) + "\n")
