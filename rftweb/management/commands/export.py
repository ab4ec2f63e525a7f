"""Export ratings: votes, groups (GRPO), pairs (DPO), demonstrations (SFT) or turn_labels (PRM)."""

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from apps.accounts.redacting import Redactor
from apps.feedback.exporting.rows import RowSelection
from apps.feedback.exporting.schemas import KINDS
from apps.feedback.exporting.writing import FORMATS, file_name, write_export_file
from apps.feedback.forms import FORMS
from rftweb.management.console import REDACT, run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=KINDS)
        parser.add_argument("run", help="slug of the run")
        parser.add_argument("--format", choices=sorted(FORMATS), default="jsonl")
        parser.add_argument(
            "--out",
            type=Path,
            help="file to write (default: PROJECT-RUN-KIND.FORMAT in this folder)",
        )
        parser.add_argument(
            "--form", choices=sorted(FORMS), default="", help="only ratings of this type"
        )
        parser.add_argument(
            "--since",
            type=moment,
            help="only ratings since then: 2026-11-21 or 2026-11-21T15:00",
        )
        parser.add_argument(
            "--pseudonyms",
            action="store_true",
            help="replace account names by rater-…",
        )
        parser.add_argument("--redact", action="store_true", help=REDACT)
        parser.add_argument("--project", help="slug of the project; optional if there is only one")

    def handle(self, **options: Any) -> None:
        run = run_named(options["run"], options["project"])
        redactor = Redactor() if options["redact"] else None
        selection = RowSelection(
            run, options["form"], options["since"], options["pseudonyms"], redactor
        )
        path: Path = options["out"] or Path(
            file_name(options["kind"], selection, options["format"])
        )
        try:
            with path.open("xb") as stream:
                count = write_export_file(options["kind"], selection, options["format"], stream)
        except FileExistsError:
            raise CommandError(f"--out: {path} already exists; choose another file") from None
        except OSError as error:
            raise CommandError(f"--out: {error}") from None
        suffix = f"; redacted: {redactor.words}" if redactor else ""
        self.stdout.write(
            self.style.SUCCESS(f"{count} {options['kind'].replace('_', ' ')} in {path}{suffix}")
        )


def moment(text: str) -> datetime:
    """Parse a date. Raise ValueError."""
    parsed = parse_datetime(text)
    if parsed is None and (day := parse_date(text)):
        parsed = datetime(day.year, day.month, day.day)
    if parsed is None:
        raise ValueError(text)
    return timezone.make_aware(parsed) if timezone.is_naive(parsed) else parsed
