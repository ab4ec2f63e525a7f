"""Retention: let go of the arrays of rollouts that nothing may need any more, by each run's rule, or tell what would go."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from pydantic import ValidationError

from apps.buffer.retention import Going, released, rule_of, would_go
from apps.runs.models import Run
from apps.runs.retention import Retention
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", nargs="?", help="slug of the run; without it all runs that have a rule")
        parser.add_argument("--project", help="slug of the project; may be left out when there is one such run")
        parser.add_argument("--days", type=int, help="for this run and this once: days after a group was closed")
        parser.add_argument("--uses", type=int, help="for this run and this once: updates that took a group")
        parser.add_argument("--dry-run", action="store_true", help="tell what would go, and write nothing")

    def handle(self, **options: object) -> None:
        told = _told(options)
        all_runs = Run.objects.select_related("project").order_by("pk")
        runs = [run_named(options["run"], options["project"])] if options["run"] else all_runs
        total, ruled = Going(), 0
        for run in runs:
            rule = told or rule_of(run)
            if rule is None:
                continue
            ruled += 1
            gone = would_go(run, rule) if options["dry_run"] else sum(released(run, rule), Going())
            total += gone
            if gone.groups or options["run"]:
                self.stdout.write(f"{run.project.slug}/{run.slug}: {_words(gone)}")
        if not ruled:
            raise CommandError(
                "no rule: give `--days` or `--uses` with a run, set `retention` in a run's configuration, or RFTWEB_RETENTION_DAYS"
            )
        self.stdout.write(self.style.SUCCESS(f"{'would go' if options['dry_run'] else 'let go'}: {_words(total)}"))


def _told(options: dict) -> Retention | None:
    if options["days"] is None and options["uses"] is None:
        return None
    if not options["run"]:
        raise CommandError("--days and --uses are for one run: name it")
    try:
        return Retention(days=options["days"], uses=options["uses"])
    except ValidationError as error:
        problem = error.errors()[0]
        raise CommandError(f"--{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None


def _words(gone: Going) -> str:
    return f"arrays of {gone.rollouts:,} rollouts in {gone.groups:,} groups, {gone.bytes:,} bytes"
