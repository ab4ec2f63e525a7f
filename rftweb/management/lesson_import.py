"""What the commands `demonstrations`, `preferences` and `thumbs` share: importing a file, or
looking through it first."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import CommandError
from django.db.models import Count

from apps.accounts.models import Project, User
from apps.feedback.importing import BadLessons, Destination, Imported, LessonFile, import_lessons
from apps.feedback.models import Lesson
from apps.feedback.previewing import LOOKED_THROUGH, preview_lessons
from apps.feedback.reading import MORE, TEXTS, LessonColumns
from apps.tasksets.layouts import layouts_for
from apps.tasksets.messages import content_text
from apps.tasksets.sources import FORMATS
from apps.tasksets.sources.records import NotReadable
from rftweb.management.console import (
    dropped_lines,
    project_named,
    run_named,
    shorten_to_line,
    show_progress_bar,
)

SHOWN = 20  # bad lines printed


def add_arguments(parser: ArgumentParser, kind: str) -> None:
    parser.add_argument(
        "file",
        type=Path,
        help="JSON lines, a JSON array, CSV, TSV, Parquet or Arrow; may be compressed or zipped",
    )
    parser.add_argument(
        "--taskset",
        help=(
            "each line is about a task of this taskset, named by its prompt or by its index, `task`"
        ),
    )
    parser.add_argument(
        "--run",
        help=(
            "the lessons are about this run and the tasks of its taskset; if it has several, also "
            "name one"
        ),
    )
    parser.add_argument("--author", help="username of the author, for lines without `author`")
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="column of the file that contains a field, if it has another name",
    )
    parser.add_argument(
        "--layout",
        choices=[layout.name for layout in layouts_for(kind)],
        default="",
        metavar="NAME",
        help="layout of the rows (default: detected from the first rows)",
    )
    parser.add_argument(
        "--min-rating",
        type=float,
        metavar="RATING",
        help="rating from which a reply is good, if the file contains ratings",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the file (default: detected)"
    )
    parser.add_argument(
        "--split", default="", help="file to read, if a zip file or folder has several"
    )
    parser.add_argument(
        "--preview", action="store_true", help="show what would be stored, without storing it"
    )
    parser.add_argument(
        "--set-aside",
        type=Path,
        metavar="FILE",
        help="write bad lines to this file unchanged instead of rejecting the whole file",
    )
    parser.add_argument("--project", help="slug of the project; optional if there is only one")


def run_lesson_import(kind: str, options: dict) -> str:
    """Import the file as lessons of this kind, or look through it; return what to print.

    Raises CommandError.
    """
    path: Path = options["file"]
    if not path.exists():
        raise CommandError(f"{path}: the file does not exist")
    names = _columns(kind, options["column"])
    try:
        columns = LessonColumns(names, options["layout"], options["min_rating"])
    except ValueError as error:
        raise CommandError(f"--min-rating: {error}") from None
    file = LessonFile(path, kind, columns, options["format"], options["split"])
    to = _destination(options)
    try:
        if options["preview"]:
            return describe_preview(file)
        with show_progress_bar(f"reading {path.name}", None) as progress:
            return describe_outcome(kind, _import(file, to, options["set_aside"], progress))
    except BadLessons as refusal:
        raise CommandError(list_refused_lines(kind, refusal)) from None
    except NotReadable as damage:
        raise CommandError(f"{path}: {damage}") from None


def describe_preview(file: LessonFile) -> str:
    """Say how the file is read and what its first lessons are. Raises NotReadable."""
    preview = preview_lessons(file)
    lines = [f"layout: {preview.layout or 'unknown'}", *dropped_lines(preview.dropped)]
    for line in preview.good:
        lines.append(f"line {line.number}:")
        lines += [
            f"  {message['role']}: {shorten_to_line(content_text(message['content']))}"
            for message in line.prompt or ()
        ]
        lines += [f"  task {line.task}"] if line.task is not None else []
        lines += [f"  author: {line.author}"] if line.author else []
        lines += [f"  → {name}: {shorten_to_line(str(text))}" for name, text in line.fields.items()]
    if preview.bad:
        lines.append(f"{preview.bad_rows} lines are not valid {file.kind}:")
        lines += [f"  line {line.number}: {line.reason}" for line in preview.bad]
    of = f"the first {LOOKED_THROUGH:,} rows" if preview.is_cut else "the file"
    return "\n".join([*lines, f"{preview.lessons} {file.kind} in {of}; nothing was stored"])


def _import(file: LessonFile, to: Destination, aside: Path | None, progress) -> Imported:
    if aside is None:
        return import_lessons(file, to, None, progress)
    try:
        stream = aside.open("xb")
    except FileExistsError:
        raise CommandError(f"--set-aside: {aside} already exists; choose another file") from None
    except OSError as error:
        raise CommandError(f"--set-aside: {error}") from None
    with stream:
        return import_lessons(file, to, stream, progress)


def _destination(options: dict) -> Destination:
    run = run_named(options["run"], options["project"]) if options["run"] else None
    project = run.project if run else project_named(options["project"])
    taskset = run.taskset if run else None
    if options["taskset"]:
        taskset = project.tasksets.filter(slug=options["taskset"]).first()
        if taskset is None:
            slugs = ", ".join(project.tasksets.values_list("slug", flat=True)) or "none yet"
            raise CommandError(f"--taskset: no taskset {options['taskset']!r}; there are: {slugs}")
    elif run and not taskset:
        raise CommandError(
            f"--taskset: {run.slug} samples from {run.asks_of}; name the one that the lessons are "
            "about"
        )
    return Destination(
        project, options["file"].name, taskset, run, _author(project, options["author"])
    )


def _author(project: Project, name: str | None) -> User | None:
    if name is None:
        return None
    member = project.memberships.filter(user__username=name).select_related("user").first()
    if member is None:
        raise CommandError(f"--author: no member of project {project.slug!r} is called {name!r}")
    return member.user


def _columns(kind: str, pairs: list[str]) -> dict[str, str]:
    ours = ("prompt", "task", "author", "system", *TEXTS[kind], *MORE.get(kind, ()))
    columns = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    wrong = [pair for pair in pairs if pair.split("=", 1)[0] not in ours or "=" not in pair]
    if wrong:
        raise CommandError(
            f"--column {wrong[0]}: must be OURS=THEIRS, OURS one of {', '.join(ours)}"
        )
    return columns


def list_refused_lines(kind: str, refusal: BadLessons) -> str:
    lines = [
        f"  line {line.number}: {line.reason}   {line.excerpt}" for line in refusal.lines[:SHOWN]
    ]
    more = [f"  and {refusal.count - SHOWN} more"] if refusal.count > SHOWN else []
    advice = (
        "nothing was stored; correct the lines, or write them to another file with --set-aside FILE"
    )
    return "\n".join([f"{refusal.count} lines are not valid {kind}:", *lines, *more, advice])


def describe_outcome(kind: str, outcome: Imported) -> str:
    aside = f", {outcome.bad} lines set aside" if outcome.bad else ""
    lines = [f"{outcome.new} {kind} stored, {outcome.existing} already existed{aside}"]
    lines += [f"layout: {outcome.layout}"] if outcome.layout else []
    lines += dropped_lines(outcome.dropped)
    if outcome.raters:
        lines.append(f"authors who are not members, kept as imported raters: {outcome.rater_names}")
    return "\n".join(lines)


def listing(kind: type[Lesson]) -> list[tuple[str, str, int]]:
    """Return (project's slug, source, count) of the existing lessons."""
    return list(
        kind.objects.values_list("project__slug", "source")
        .annotate(n=Count("pk"))
        .order_by("project__slug", "source")
    )
