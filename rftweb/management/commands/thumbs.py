"""Thumbs: import replies labelled good or bad, list."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.feedback.models import Thumb
from rftweb.management import lesson_import


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        lesson_import.add_arguments(
            verbs.add_parser(
                "import", help="import a file of prompts (or tasks), completions and labels"
            ),
            "thumbs",
        )
        verbs.add_parser("list", help="list thumbs by project and source")

    def handle(self, **options: Any) -> None:
        {"import": self._import, "list": self._list}[options["verb"]](options)

    def _import(self, options: dict) -> None:
        self.stdout.write(lesson_import.run_lesson_import("thumbs", options))

    def _list(self, options: dict) -> None:
        for project, source, count in lesson_import.listing(Thumb):
            self.stdout.write(f"{project:15} {source:40} {count:>8} thumbs")
