"""Check the invariants of the database; exit 1 on any violation: `manage.py reconcile`."""

import json
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.dashboard.reconciliation import reconcile
from apps.runs.models import ProjectRemoval, RunRemoval


class Command(BaseCommand):
    help = (
        "Check that no data is lost or duplicated; names each violation and exits with 1 if there "
        "is one."
    )

    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--acknowledged",
            type=Path,
            help=(
                "JSON lines with the client_uuid of each rating whose storage was acknowledged to "
                "a client"
            ),
        )
        parser.add_argument(
            "--json",
            action="store_true",
            dest="as_json",
            help="Print one JSON object: violations by check.",
        )

    def handle(self, *, acknowledged: Path | None, as_json: bool, **_: object) -> None:
        violations_by_check = reconcile(_client_uuids(acknowledged) if acknowledged else None)
        self._print(violations_by_check, as_json)
        if deleting := RunRemoval.objects.unfinished().count():
            self.stderr.write(f"Runs being deleted: {deleting}. Violations may be theirs.")
        if deleting := ProjectRemoval.objects.unfinished().count():
            self.stderr.write(f"Projects being deleted: {deleting}. Violations may be theirs.")
        if any(violations_by_check.values()):
            raise SystemExit(1)

    def _print(self, violations_by_check: dict[str, list[str]], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(violations_by_check))
            return
        for name, violations in violations_by_check.items():
            self.stdout.write(f"{'ok  ' if not violations else 'FAIL'}  {name}")
            for violation in violations:
                self.stdout.write(f"      {violation}")


def _client_uuids(path: Path) -> set[str]:
    try:
        return {
            json.loads(line)["client_uuid"]
            for line in path.read_text().splitlines()
            if line.strip()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"--acknowledged {path}: every line must be JSON with a client_uuid ({error})"
        ) from error
