"""Files of tasks on the command line: import, export, and the overlap of two sets."""

import json
import re
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import islice, starmap
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.accounts.redacting import Redactor
from apps.pipelines.applying import OperatorFailed
from apps.runs.config import ConfigError
from apps.runs.parsing import load_yaml
from apps.tasksets.duplicates import CHOICES, KEEP
from apps.tasksets.exporting import TYPES, export_pieces
from apps.tasksets.importing import rows_of_file
from apps.tasksets.layouts import TASKS, layouts_for
from apps.tasksets.messages import content_text
from apps.tasksets.models import Taskset
from apps.tasksets.overlap import THRESHOLD, Pair, TooMuch
from apps.tasksets.reading import AUTO, BY_COLUMNS, Columns, TaskRows
from apps.tasksets.sources import FORMATS
from apps.tasksets.sources.hub import HubRows, hub_rows
from apps.tasksets.sources.jsonl import decode_record, iterate_records
from apps.tasksets.sources.names import plain_name
from apps.tasksets.sources.plugins import lines_from_plugin
from apps.tasksets.sources.records import BadLine, Record
from apps.tasksets.storing import BadLines, store_taskset
from apps.tasksets.taskset_overlap import measure_overlap
from apps.tasksets.versions import slug_of_next
from rftweb.management.console import REDACT, dropped_lines, shorten_to_line, show_progress_bar
from rftweb.management.taskset_operators import add_operators, sieve_from
from rftweb.management.taskset_origin import named_origin

SHOWN = 20  # bad lines printed
PREVIEWED = 3  # rows printed before anything is stored
COLUMNS = "columns"


def add_import(verbs: _SubParsersAction) -> ArgumentParser:
    importing = verbs.add_parser(
        "import", help="import the tasks of a file, a folder or a Hub data set"
    )
    importing.add_argument(
        "file",
        help=(
            "JSON lines, a JSON array, CSV, TSV, Parquet, Arrow, also compressed; a folder or zip "
            "file of these, or a folder of `save_to_disk`; with --hub the name of the data set"
        ),
    )
    importing.add_argument("--slug", help="name of the taskset (default: the file's)")
    importing.add_argument("--title", default="")
    importing.add_argument(
        "--version-of",
        metavar="TASKSET",
        help="next version of this set (default name: the first version's with -v2, -v3 …)",
    )
    _add_source(importing)
    _add_columns(importing)
    importing.add_argument(
        "--duplicates",
        choices=CHOICES,
        default=KEEP,
        help="for tasks that repeat an earlier line: keep them, leave them out, or reject the file",
    )
    add_operators(importing)
    importing.add_argument(
        "--quarantine",
        action="store_true",
        help="set bad lines aside instead of rejecting the file",
    )
    return importing


def _add_source(importing: ArgumentParser) -> None:
    importing.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the file (default: detected)"
    )
    importing.add_argument(
        "--layout",
        choices=(AUTO, COLUMNS, *(layout.name for layout in layouts_for(TASKS))),
        default=AUTO,
        metavar="NAME",
        help=(
            "layout of the rows (default: detected from the first rows; `columns` if you use "
            "--prompt or --answer)"
        ),
    )
    importing.add_argument(
        "--preview", action="store_true", help="show what would be stored, without storing it"
    )
    importing.add_argument(
        "--hub",
        action="store_true",
        help="download from the Hugging Face Hub; without this option nothing is downloaded",
    )
    importing.add_argument(
        "--plugin",
        metavar="NAME",
        help="read the rows with this dataset source; `file` is what it is told to read",
    )
    importing.add_argument(
        "--plugin-option",
        dest="options_of_plugin",
        metavar="NAME=VALUE",
        type=named_option,
        action="append",
        default=[],
        help="option of the dataset source, its value in YAML; repeatable",
    )
    importing.add_argument(
        "--config", default="", help="configuration, if a Hub data set has several"
    )
    importing.add_argument(
        "--split", default="", help="split, if a folder or a Hub data set has several"
    )


def _add_columns(importing: ArgumentParser) -> None:
    importing.add_argument(
        "--prompt", default=Columns.prompt, help="column of the prompt: text or chat messages"
    )
    importing.add_argument(
        "--answer", default=Columns.answer, help="column of the answer for scorers"
    )
    importing.add_argument(
        "--answer-key",
        default=Columns.answer_key,
        help="field name for an answer that is not an object",
    )
    importing.add_argument("--no-answer", action="store_true", help="the file has no answers")
    importing.add_argument("--domain", default=Columns.domain, help="column of the domain")
    importing.add_argument(
        "--follow-ups",
        default=Columns.follow_ups,
        help="column of the user's messages after each reply",
    )
    importing.add_argument(
        "--meta",
        action="append",
        default=[],
        help="column to keep in the task's meta; repeatable",
    )


def imported(project: Project, options: dict) -> tuple[Taskset, list[str]]:
    """Return the new taskset, and how its file was read.

    Raises CommandError with what is wrong, bad lines by their numbers.
    """
    name = options["file"]
    path = Path(options["file"])
    before = _before(project, options["version_of"]) if options["version_of"] else None
    plain = name if options["hub"] or options["plugin"] or path.is_dir() else plain_name(name)
    default_slug = (
        slug_of_next(before)
        if before
        else re.sub(r"[^A-Za-z0-9_-]+", "-", Path(plain).stem).strip("-")[:50]
    )
    slug = options["slug"] or default_slug
    title = options["title"] or slug
    origin = named_origin(
        "--slug and --title", project, slug, title, _source(options), version_of=before
    )
    why_not = sieve_from(project, options)
    try:
        with _opened(options) as (rows, progress):
            taskset = store_taskset(
                origin, rows, options["quarantine"], progress, options["duplicates"], why_not
            )
    except BadLines as refusal:
        raise CommandError(_listed(refusal)) from None
    except IntegrityError:
        raise CommandError(
            f"--slug: taskset {slug!r} already exists; choose another name, or use --version-of"
        ) from None
    except (ValueError, OSError, OperatorFailed) as error:
        raise CommandError(f"{name}: {error}") from None
    return taskset, _read_as(rows)


def preview_lines(options: dict) -> list[str]:
    """Return how the file is read and what its first rows are, line by line.

    Raises CommandError.
    """
    try:
        with _opened(options) as (rows, _):
            first = list(islice(rows, PREVIEWED))
    except (ValueError, OSError) as error:
        raise CommandError(f"{options['file']}: {error}") from None
    lines = _read_as(rows)
    for row in first:
        if isinstance(row, BadLine):
            lines.append(f"line {row.number}: {row.reason}")
            continue
        lines.append(f"line {row.line}:")
        lines += [
            f"  {message['role']}: {shorten_to_line(content_text(message['content']))}"
            for message in row.prompt
        ]
        document = {
            "answer": row.answer,
            "domain": row.domain,
            "meta": row.meta,
            "follow_ups": row.follow_ups,
        }
        lines += [
            f"  → {field}: {shorten_to_line(str(value))}"
            for field, value in document.items()
            if value
        ]
    return [*lines, "nothing was stored"]


def named_option(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE. Raises ArgumentTypeError."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    try:
        return name, load_yaml(value)
    except ConfigError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from None


def _columns(options: dict) -> Columns:
    usual = Columns()
    is_mapped = (options["prompt"], options["answer"]) != (usual.prompt, usual.answer) or options[
        "no_answer"
    ]
    layout = options["layout"]
    if layout == COLUMNS or (layout == AUTO and is_mapped):
        layout = BY_COLUMNS
    return Columns(
        options["prompt"],
        None if options["no_answer"] else options["answer"],
        options["follow_ups"],
        options["domain"],
        answer_key=options["answer_key"],
        more_meta=tuple(options["meta"]),
        layout=layout,
    )


def _read_as(rows: TaskRows) -> list[str]:
    title = (
        rows.layout.title
        if rows.layout
        else f"columns {rows.columns.prompt} and {rows.columns.answer or 'no answer'}"
    )
    return [f"layout: {title}", *dropped_lines(rows.dropped)]


@contextmanager
def _opened(options: dict) -> Iterator[tuple[TaskRows, Callable[[int], None]]]:
    """Yield the rows of the file, the folder or the data set, and what shows how far they are
    read.
    """
    if options["hub"]:
        data_set = options["file"], options["config"], options["split"]
        with (
            show_progress_bar(f"rows of {options['file']}", None) as progress,
            hub_rows(*data_set) as hub,
        ):
            yield TaskRows(_records_of_hub(hub), _columns(options)), progress
        return
    if options["plugin"]:
        values = dict(options["options_of_plugin"])
        lines = lines_from_plugin(options["plugin"], options["file"], values)
        with show_progress_bar(f"rows of {options['file']}", None) as progress:
            yield (
                TaskRows(starmap(decode_record, enumerate(lines, start=1)), _columns(options)),
                progress,
            )
        return
    path = Path(options["file"])
    if not path.exists():
        raise CommandError(f"{path}: the file does not exist")
    source, rows = rows_of_file(path, _columns(options), options["format"], options["split"])
    with show_progress_bar(f"reading {path.name}", source.size) as progress:
        yield rows, lambda done: progress(source.at)


def _records_of_hub(hub: HubRows) -> Iterator[Record | BadLine]:
    """Yield the data set's records. Raises ValueError if its end was not reached."""
    yield from iterate_records(hub.lines)
    hub.require_end()


def _before(project: Project, slug: str) -> Taskset:
    """Return the taskset that `--version-of` names. Raise CommandError."""
    taskset = project.tasksets.filter(slug=slug).first()
    if taskset is None:
        raise CommandError(f"--version-of: no taskset {slug!r} in {project.slug}")
    return taskset


def _source(options: dict) -> str:
    remote = options["hub"] or options["plugin"]
    parts = [
        options["file"] if remote else Path(options["file"]).resolve().name,
        options["config"],
        options["split"],
    ]
    before = "Hub:" if options["hub"] else f"{remote}:" if remote else ""
    return " ".join([before, *parts]).strip()[:200]


def _listed(refusal: BadLines) -> str:
    lines = [
        f"  line {line.number}: {line.reason}   {line.excerpt}" for line in refusal.lines[:SHOWN]
    ]
    more = [f"  and {refusal.count - SHOWN} more"] if refusal.count > SHOWN else []
    advice = (
        "nothing was stored; correct the lines, set bad ones aside with --quarantine, or leave out "
        "repeated ones with --duplicates drop"
    )
    return "\n".join([f"{refusal.count} lines cannot become tasks:", *lines, *more, advice])


# -- export and overlap


def add_export(verbs: _SubParsersAction) -> ArgumentParser:
    exporting = verbs.add_parser(
        "export", help="write the tasks to a file that you can import as the same set"
    )
    exporting.add_argument("slug", help="of the taskset")
    exporting.add_argument(
        "file", type=Path, help=f"the extension sets the format: {', '.join(TYPES)}"
    )
    exporting.add_argument("--force", action="store_true", help="overwrite an existing file")
    exporting.add_argument("--redact", action="store_true", help=REDACT)
    return exporting


def export_to_file(taskset: Taskset, path: Path, force: bool, redact: bool) -> str:
    """Write the file and return a description of it.

    The file gets its name when it is complete; raises CommandError.
    """
    format = path.suffix.lower().removeprefix(".")
    if format not in TYPES:
        raise CommandError(f"{path}: must end with .{', .'.join(TYPES)}")
    if path.exists() and not force:
        raise CommandError(f"{path}: already exists; use --force to overwrite it")
    partial = path.with_name(f".{path.name}.part")
    redactor = Redactor() if redact else None
    try:
        with (
            partial.open("wb") as stream,
            show_progress_bar(f"writing {path.name}", taskset.size) as progress,
        ):
            stream.writelines(export_pieces(taskset, format, progress, redactor))
        partial.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    if redactor:
        return f"{path}: {taskset.size} tasks, redacted: {redactor.words}"
    prefix = f"version {taskset.version} of {taskset.first}, " if taskset.first else ""
    return (
        f"{path}: {taskset.size} tasks, {prefix}digest {taskset.digest or 'none, because it grows'}"
    )


def add_overlap(verbs: _SubParsersAction) -> ArgumentParser:
    overlapping = verbs.add_parser(
        "overlap",
        help="find tasks that are in two sets, for example test tasks in a training set",
    )
    overlapping.add_argument(
        "checked", help="slug of the set to check, the smaller one: it is held in memory"
    )
    overlapping.add_argument("other", help="slug of the set to compare with")
    overlapping.add_argument(
        "--threshold",
        type=float,
        default=THRESHOLD,
        help="share of a task's word 8-grams from which it counts as near",
    )
    overlapping.add_argument(
        "--pairs", type=Path, help="write every pair to this file, as JSON lines"
    )
    return overlapping


def overlapped(checked: Taskset, compared: Taskset, options: dict) -> list[str]:
    """Return the lines that describe the overlap. Raise CommandError."""
    if not 0 < options["threshold"] <= 1:
        raise CommandError("--threshold: must be above 0, and at most 1")
    try:
        with ExitStack() as stack:
            tell = _teller(stack, options["pairs"])
            progress = stack.enter_context(
                show_progress_bar(
                    f"comparing {checked.slug} with {compared.slug}", checked.size + compared.size
                )
            )
            overlap = measure_overlap(checked, compared, options["threshold"], tell, progress)
    except TooMuch as error:
        raise CommandError(f"{checked.slug}: {error}") from None
    except OSError as error:
        raise CommandError(f"--pairs: {error}") from None
    summary = (
        f"{checked.slug}: {overlap.exact} of {overlap.tasks} tasks are in {compared.slug} exactly, "
        f"{overlap.near} more nearly"
    )
    lines = [
        f"  {pair.checked:>8} {pair.other:>8}  {'exact' if pair.is_exact else f'{pair.share:.2f}'}"
        for pair in overlap.pairs[:SHOWN]
    ]
    head = [f"  {checked.slug[:8]:>8} {compared.slug[:8]:>8}  share"] if lines else []
    more = (
        [f"  and {overlap.count - SHOWN} more pairs; --pairs FILE writes all"]
        if overlap.count > SHOWN
        else []
    )
    return [f"{summary} ({overlap.share:.1%})", *head, *lines, *more]


def _teller(stack: ExitStack, path: Path | None) -> Callable[[Pair], object]:
    if path is None:
        return lambda pair: None
    stream = stack.enter_context(path.open("w"))
    return lambda pair: stream.write(json.dumps(asdict(pair)) + "\n")
