"""Delete rollout arrays that are no longer needed, or show what would be deleted."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pydantic import ValidationError

from apps.buffer.retention import ReleaseSize, find_retention_rule, released, would_go
from apps.runs.models import Run
from apps.runs.retention import Retention
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "run", nargs="?", help="slug of the run; default: all runs that have a rule"
        )
        parser.add_argument(
            "--project", help="slug of the project; optional if there is only one such run"
        )
        parser.add_argument(
            "--days", type=int, help="for this run, once: days after a group was closed"
        )
        parser.add_argument(
            "--uses", type=int, help="for this run, once: number of steps that used a group"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="show what would be deleted, without deleting it"
        )

    def handle(self, **options: Any) -> None:
        document = _given_rule(options)
        all_runs = Run.objects.select_related("project").order_by("pk")
        runs = [run_named(options["run"], options["project"])] if options["run"] else all_runs
        total = ReleaseSize()
        ruled = 0
        for run in runs:
            rule = document or find_retention_rule(run)
            if rule is None:
                continue
            ruled += 1
            size = (
                would_go(run, rule)
                if options["dry_run"]
                else sum(released(run, rule), ReleaseSize())
            )
            total += size
            if size.groups or options["run"]:
                self.stdout.write(f"{run.project.slug}/{run.slug}: {_freed_text(size)}")
        if not ruled:
            raise CommandError(
                "no rule: use `--days` or `--uses` with a run, set `retention` in a run's "
                "configuration, or set RFTWEB_RETENTION_DAYS"
            )
        self.stdout.write(
            self.style.SUCCESS(
                f"{'would be deleted' if options['dry_run'] else 'deleted'}: {_freed_text(total)}"
            )
        )


def _given_rule(options: dict) -> Retention | None:
    if options["days"] is None and options["uses"] is None:
        return None
    if not options["run"]:
        raise CommandError("--days and --uses need a run")
    try:
        return Retention(days=options["days"], uses=options["uses"])
    except ValidationError as error:
        problem = error.errors()[0]
        raise CommandError(f"--{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None


def _freed_text(size: ReleaseSize) -> str:
    return f"arrays of {size.rollouts:,} rollouts in {size.groups:,} groups, {size.bytes:,} bytes"
