"""What `manage.py demonstrations import` and `manage.py preferences import` share."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import CommandError
from django.db.models import Count

from apps.accounts.models import Project, User
from apps.feedback.importing import BadLessons, Destination, Imported, import_lessons
from apps.feedback.models import Lesson
from apps.feedback.parquet import NotParquet
from apps.feedback.reading import TEXTS
from rftweb.management.console import bar, project_named, run_named

SHOWN = 20  # bad lines printed


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="JSON lines, see docs/lessons.md")
    parser.add_argument("--taskset", help="every line is about a task of this taskset, named by its prompt or by `task`, its index")
    parser.add_argument("--run", help="the lessons are about this run, and about tasks of its taskset; of several, name one, too")
    parser.add_argument("--author", help="username of whoever said it, for lines without `author`")
    parser.add_argument(
        "--column", action="append", default=[], metavar="OURS=THEIRS", help="where the file names a column otherwise"
    )
    parser.add_argument(
        "--set-aside", type=Path, metavar="FILE", help="write bad lines there, word for word, instead of refusing the file"
    )
    parser.add_argument("--project", help="slug of the project; may be left out when there is one")


def run(kind: str, options: dict) -> Imported:
    """Import the file as lessons of this kind. Raises CommandError."""
    path: Path = options["file"]
    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    to = _destination(kind, options)
    try:
        with bar(f"reading {path.name}", path.stat().st_size) as progress:
            return _import(path, kind, to, options["set_aside"], progress)
    except BadLessons as refusal:
        raise CommandError(listed(kind, refusal)) from None
    except NotParquet as damage:
        raise CommandError(f"{path}: {damage}") from None


def _import(path: Path, kind: str, to: Destination, aside: Path | None, progress) -> Imported:
    if aside is None:
        return import_lessons(path, kind, to, None, progress)
    try:
        with aside.open("xb") as stream:
            return import_lessons(path, kind, to, stream, progress)
    except FileExistsError:
        raise CommandError(f"--set-aside: {aside} is there already; choose another") from None


def _destination(kind: str, options: dict) -> Destination:
    run = run_named(options["run"], options["project"]) if options["run"] else None
    project = run.project if run else project_named(options["project"])
    taskset = run.taskset if run else None
    if options["taskset"]:
        taskset = project.tasksets.filter(slug=options["taskset"]).first()
        if taskset is None:
            known = ", ".join(project.tasksets.values_list("slug", flat=True)) or "none yet"
            raise CommandError(f"--taskset: no taskset {options['taskset']!r}; there are: {known}")
    elif run and not taskset:
        raise CommandError(f"--taskset: {run.slug} draws from {run.asks_of}; say which of them the lessons are about")
    return Destination(
        project, options["file"].name, taskset, run, _author(project, options["author"]), _columns(kind, options["column"])
    )


def _author(project: Project, name: str | None) -> User | None:
    if name is None:
        return None
    member = project.memberships.filter(user__username=name).select_related("user").first()
    if member is None:
        raise CommandError(f"--author: nobody called {name!r} belongs to project {project.slug!r}")
    return member.user


def _columns(kind: str, pairs: list[str]) -> dict[str, str]:
    ours = ("prompt", "task", "author", *TEXTS[kind], *{"preferences": ("margin",), "thumbs": ("label",)}.get(kind, ()))
    named = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    wrong = [pair for pair in pairs if pair.split("=", 1)[0] not in ours or "=" not in pair]
    if wrong:
        raise CommandError(f"--column {wrong[0]}: must be OURS=THEIRS, OURS one of {', '.join(ours)}")
    return named


def listed(kind: str, refusal: BadLessons) -> str:
    lines = [f"  line {line.number}: {line.reason}   {line.excerpt}" for line in refusal.lines[:SHOWN]]
    more = [f"  and {refusal.count - SHOWN} more"] if refusal.count > SHOWN else []
    advice = "nothing was stored; mend the lines, or write them to another file with --set-aside FILE"
    return "\n".join([f"{refusal.count} lines are no {kind}:", *lines, *more, advice])


def told(kind: str, outcome: Imported) -> str:
    aside = f", {outcome.bad} lines set aside" if outcome.bad else ""
    return f"{outcome.new} {kind} stored, {outcome.known} were there already{aside}"


def listing(kind: type[Lesson]) -> list[tuple[str, str, int]]:
    """(project's slug, source, how many) of what there is."""
    return list(kind.objects.values_list("project__slug", "source").annotate(n=Count("pk")).order_by("project__slug", "source"))
