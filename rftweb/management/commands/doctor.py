"""Check services, schema, engine, GPU, sandbox, disk, secrets and versions; say how to fix them."""

import json
from dataclasses import asdict

from django.core.management.base import BaseCommand

from rftweb.doctor import CHECKS, Finding, Level


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON list")

    def handle(self, **options) -> None:
        findings = []
        for check in CHECKS:
            for finding in check():
                findings.append(finding)
                if not options["json"]:
                    self._show(finding)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=1))
        if any(finding.level is Level.FAIL for finding in findings):
            raise SystemExit(1)

    def _show(self, finding: Finding) -> None:
        style = {
            Level.OK: self.style.SUCCESS,
            Level.WARN: self.style.WARNING,
            Level.FAIL: self.style.ERROR,
        }[finding.level]
        self.stdout.write(f"{style(f'{finding.level:>4}')}  {finding.subject:<11} {finding.text}")
        if finding.mend:
            self.stdout.write(f"{'':18}→ {finding.mend}")
