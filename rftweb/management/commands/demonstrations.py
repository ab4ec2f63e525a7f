"""Demonstrations: import correct replies, take the shortest correct ones from a run, list."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.feedback.brevity_lessons import draw_demonstrations
from apps.feedback.models import Demonstration
from rftweb.management import lesson_import
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        lesson_import.add_arguments(
            verbs.add_parser("import", help="import a file of prompts (or tasks) and replies"),
            "demonstrations",
        )
        shortest = verbs.add_parser(
            "shortest",
            help="take the shortest correct reply to each task of a run (rejection sampling)",
        )
        shortest.add_argument("run")
        shortest.add_argument(
            "--from-version",
            type=int,
            default=0,
            help="only replies from this weight version or later ones",
        )
        shortest.add_argument("--project")
        verbs.add_parser("list", help="list demonstrations by project and source")

    def handle(self, **options: Any) -> None:
        {"import": self._import, "shortest": self._shortest, "list": self._list}[options["verb"]](
            options
        )

    def _import(self, options: dict) -> None:
        self.stdout.write(lesson_import.run_lesson_import("demonstrations", options))

    def _shortest(self, options: dict) -> None:
        new, existing = draw_demonstrations(
            run_named(options["run"], options["project"]), options["from_version"]
        )
        self.stdout.write(f"{new} demonstrations stored, {existing} already existed")

    def _list(self, options: dict) -> None:
        for project, source, count in lesson_import.listing(Demonstration):
            self.stdout.write(f"{project:15} {source:40} {count:>8} demonstrations")
