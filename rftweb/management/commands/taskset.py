"""Tasksets: import JSON lines, generate from a seed, list."""

import re
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.rewards.code.making import Thresholds
from apps.rewards.code.testing import with_tests
from apps.rewards.sandbox import NoSandbox
from apps.tasksets.generators import GENERATORS
from apps.tasksets.importing import generate, import_jsonl
from apps.tasksets.joining import join
from apps.tasksets.models import Taskset
from apps.tasksets.reading import Columns
from apps.tasksets.storing import BadLines, Origin
from rftweb.management.console import bar, project_named

SHOWN = 20  # bad lines printed
THRESHOLDS = {
    "agree": "submissions that must give a case the same output",
    "admit": "submissions that must pass all kept cases",
    "inputs": "drawn for a task, in all",
    "least": "cases that a task needs",
}


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        importing = verbs.add_parser("import", help="store the tasks of a JSON lines file")
        importing.add_argument("file", type=Path)
        importing.add_argument("--slug", help="name of the taskset (default: the file's)")
        importing.add_argument("--title", default="")
        importing.add_argument("--prompt", default="prompt", help="column of the prompt: a text, or chat messages")
        importing.add_argument("--answer", default="answer", help="column of the answer that scorers judge by")
        importing.add_argument("--no-answer", action="store_true", help="the file has no answers")
        importing.add_argument("--quarantine", action="store_true", help="set bad lines aside instead of refusing the file")
        generating = verbs.add_parser("generate", help="store tasks drawn from a seed")
        generating.add_argument("generator", choices=sorted(GENERATORS))
        generating.add_argument("--size", type=int, default=500)
        generating.add_argument("--seed", type=int, default=0)
        generating.add_argument("--slug", help="name of the taskset (default: the generator's)")
        testing = verbs.add_parser("tests", help="a new set of the tasks that get tests from their generators and submissions")
        testing.add_argument("slug", help="of the taskset: tasks without tests have generators and submissions in their meta")
        testing.add_argument("--to", help="name of the new taskset (default: the old one's with -tested)")
        for name, said in THRESHOLDS.items():
            testing.add_argument(f"--{name}", type=int, default=getattr(Thresholds(), name), help=said)
        joining = verbs.add_parser("join", help="a new set of several ones' tasks, for a run over several domains")
        joining.add_argument("slug", help="of the new taskset")
        joining.add_argument("parts", nargs="+", help="slugs of the tasksets to join")
        listing = verbs.add_parser("list", help="show what there is")
        for verb in (importing, generating, testing, joining, listing):
            verb.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        verbs = {
            "import": self._import, "generate": self._generate, "tests": self._tests, "join": self._join, "list": self._list,
        }  # fmt: skip
        verbs[options["verb"]](options)

    def _import(self, options: dict) -> None:
        path: Path = options["file"]
        if not path.is_file():
            raise CommandError(f"{path}: there is no such file")
        slug = options["slug"] or re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:50]
        origin = Origin(project_named(options["project"]), slug, options["title"] or slug, path.name)
        columns = Columns(options["prompt"], None if options["no_answer"] else options["answer"])
        try:
            with bar(f"reading {path.name}", path.stat().st_size) as progress:
                taskset = import_jsonl(path, origin, columns, options["quarantine"], progress)
        except BadLines as refusal:
            raise CommandError(_listed(refusal)) from None
        except IntegrityError:
            raise CommandError(f"--slug: a taskset {slug!r} is there already; choose another") from None
        except ValueError as error:
            raise CommandError(f"{path}: {error}") from None
        self._say_stored(taskset)

    def _generate(self, options: dict) -> None:
        project, slug, size = project_named(options["project"]), options["slug"] or options["generator"], options["size"]
        try:
            with bar(f"drawing {options['generator']}", size) as progress:
                taskset = generate(project, slug, options["generator"], size, options["seed"], progress=progress)
        except IntegrityError:
            raise CommandError(f"--slug: a taskset {slug!r} is there already; choose another") from None
        except ValueError as error:
            raise CommandError(f"--size: {error}") from None
        self._say_stored(taskset)

    def _tests(self, options: dict) -> None:
        project, slug = project_named(options["project"]), options["to"] or f"{options['slug']}-tested"
        taskset = _found(project, options["slug"])
        try:
            thresholds = Thresholds(**{name: options[name] for name in THRESHOLDS})
            with bar(f"testing {taskset.slug}", taskset.size) as progress:
                made = with_tests(
                    taskset, Origin(project, slug, slug, f"tests made for {taskset.slug}"), thresholds, progress, self._tell
                )
        except IntegrityError:
            raise CommandError(f"--to: a taskset {slug!r} is there already; choose another") from None
        except (NoSandbox, ValueError) as error:
            raise CommandError(str(error)) from None
        self._say_stored(made)

    def _join(self, options: dict) -> None:
        project, slug = project_named(options["project"]), options["slug"]
        parts = [_found(project, part) for part in options["parts"]]
        origin = Origin(project, slug, slug, f"joined of {', '.join(part.slug for part in parts)}"[:200])
        try:
            with bar(f"joining {slug}", sum(part.size for part in parts)) as progress:
                self._say_stored(join(origin, parts, progress))
        except IntegrityError:
            raise CommandError(f"a taskset {slug!r} is there already; choose another name") from None

    def _tell(self, line: str) -> None:
        self.stdout.write(line)

    def _list(self, options: dict) -> None:
        tasksets = Taskset.objects.select_related("project").order_by("-pk")
        if options["project"]:
            tasksets = tasksets.filter(project=project_named(options["project"]))
        for taskset in tasksets:
            self.stdout.write(f"{taskset.project.slug:15} {taskset.slug:25} {taskset.size:>8} tasks   {taskset.source}")

    def _say_stored(self, taskset: Taskset) -> None:
        aside = f", {taskset.quarantined} lines set aside" if taskset.quarantined else ""
        self.stdout.write(self.style.SUCCESS(f"taskset {taskset.slug}: {taskset.size} tasks{aside}"))


def _found(project: Project, slug: str) -> Taskset:
    taskset = Taskset.objects.filter(project=project, slug=slug).first()
    if taskset is None:
        raise CommandError(f"no taskset {slug!r} in {project.slug}")
    return taskset


def _listed(refusal: BadLines) -> str:
    lines = [f"  line {line.number}: {line.reason}   {line.excerpt}" for line in refusal.lines[:SHOWN]]
    more = [f"  and {refusal.count - SHOWN} more"] if refusal.count > SHOWN else []
    advice = "nothing was stored; mend the lines, or set them aside with --quarantine"
    return "\n".join([f"{refusal.count} lines are no tasks:", *lines, *more, advice])
