"""Preferences: import pairs of replies, take pairs from a run's ratings or by length, list."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.feedback.brevity_lessons import OVER, draw_preferences
from apps.feedback.models import Preference
from apps.feedback.preference_lessons import draw_rated
from rftweb.management import lesson_import
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        lesson_import.add_arguments(
            verbs.add_parser(
                "import", help="import a file of prompts (or tasks), chosen and rejected replies"
            ),
            "preferences",
        )
        rated = verbs.add_parser(
            "rated",
            help="take what people preferred in a run, including ratings that came too late",
        )
        rated.add_argument("run")
        rated.add_argument("--project")
        shortest = verbs.add_parser(
            "shortest",
            help=(
                "prefer the shortest correct reply to longer wrong ones and to much longer correct "
                "ones"
            ),
        )
        shortest.add_argument("run")
        shortest.add_argument(
            "--max-length-ratio",
            type=float,
            default=OVER,
            help="correct replies longer than this many times the shortest are rejected",
        )
        shortest.add_argument(
            "--from-version",
            type=int,
            default=0,
            help="only replies from this weight version or later ones",
        )
        shortest.add_argument("--project")
        verbs.add_parser("list", help="list preferences by project and source")

    def handle(self, **options: Any) -> None:
        verbs = {
            "import": self._import,
            "rated": self._rated,
            "shortest": self._shortest,
            "list": self._list,
        }
        verbs[options["verb"]](options)

    def _import(self, options: dict) -> None:
        self.stdout.write(lesson_import.run_lesson_import("preferences", options))

    def _rated(self, options: dict) -> None:
        drawn = draw_rated(run_named(options["run"], options["project"]))
        self.stdout.write(f"{drawn.new} preferences stored, {drawn.existing} already existed")
        self.stdout.write(f"taken from {drawn.ratings} ratings, {drawn.late} of them late")
        for reason, count in drawn.skipped.most_common():
            if count:
                self.stdout.write(f"not taken: {count} ratings, {reason}")

    def _shortest(self, options: dict) -> None:
        run = run_named(options["run"], options["project"])
        new, existing = draw_preferences(run, options["from_version"], options["max_length_ratio"])
        self.stdout.write(f"{new} preferences stored, {existing} already existed")

    def _list(self, options: dict) -> None:
        for project, source, count in lesson_import.listing(Preference):
            self.stdout.write(f"{project:15} {source:40} {count:>8} preferences")
