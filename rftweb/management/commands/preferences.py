"""Preferences: import pairs of a better and a worse answer, draw what people preferred in a run or what is short, list."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from apps.feedback.models import Preference
from apps.feedback.preferring import draw_rated
from apps.feedback.shortest import OVER, draw_preferences
from rftweb.management import lesson_import
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        lesson_import.add_arguments(
            verbs.add_parser("import", help="store a JSON lines file of prompt (or task), chosen and rejected")
        )
        rated = verbs.add_parser("rated", help="what people preferred in a run, also what they said too late for its groups")
        rated.add_argument("run")
        rated.add_argument("--project")
        shortest = verbs.add_parser(
            "shortest", help="the shortest right answer of a run against longer wrong and much longer right ones"
        )
        shortest.add_argument("run")
        shortest.add_argument(
            "--over", type=float, default=OVER, help="right answers longer than this many times the shortest lose"
        )
        shortest.add_argument(
            "--from-version", type=int, default=0, help="only answers sampled by this weight version or a later one"
        )
        shortest.add_argument("--project")
        verbs.add_parser("list", help="show what there is, by project and source")

    def handle(self, **options: object) -> None:
        verbs = {"import": self._import, "rated": self._rated, "shortest": self._shortest, "list": self._list}
        verbs[options["verb"]](options)

    def _import(self, options: dict) -> None:
        self.stdout.write(lesson_import.told("preferences", lesson_import.run("preferences", options)))

    def _rated(self, options: dict) -> None:
        drawn = draw_rated(run_named(options["run"], options["project"]))
        self.stdout.write(f"{drawn.new} preferences stored, {drawn.known} were there already")
        self.stdout.write(f"taken from {drawn.ratings} ratings, {drawn.late} of them late")
        for reason, count in drawn.skipped.most_common():
            if count:
                self.stdout.write(f"not taken: {count} ratings, {reason}")

    def _shortest(self, options: dict) -> None:
        run = run_named(options["run"], options["project"])
        new, known = draw_preferences(run, options["from_version"], options["over"])
        self.stdout.write(f"{new} preferences stored, {known} were there already")

    def _list(self, options: dict) -> None:
        for project, source, count in lesson_import.listing(Preference):
            self.stdout.write(f"{project:15} {source:40} {count:>8} preferences")
