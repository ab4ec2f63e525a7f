"""Send a run's groups as OpenTelemetry traces to the collector OTEL_EXPORTER_OTLP_ENDPOINT."""

import json
import time
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.runs.models import Run
from apps.runs.writers.contract import NoTarget
from rftweb.management.commands.runs import reread
from rftweb.management.console import run_named
from rftweb.traces.sending import Collector
from rftweb.traces.spans import build_spans, list_settled_groups

GROUPS_AT_ONCE = 50
POLL_S = 2.0


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        writing = verbs.add_parser("write", help="send groups that are complete and not sent yet")
        writing.add_argument("run", help="slug of the run")
        writing.add_argument(
            "--follow",
            action="store_true",
            help="continue with new groups until the run ends",
        )
        writing.add_argument(
            "--patience",
            type=int,
            default=600,
            metavar="SECONDS",
            help="seconds after which a closed group that was not trained is sent anyway (600)",
        )
        writing.add_argument(
            "--state",
            type=Path,
            help="file that records how far sending got (default: below var/traces)",
        )
        writing.add_argument("--project", help="slug of the project; optional if there is only one")

    def handle(self, **options: Any) -> None:
        if not settings.TRACES_ENDPOINT:
            raise CommandError(
                "OTEL_EXPORTER_OTLP_ENDPOINT is not set: set it to the collector's address, such "
                "as http://127.0.0.1:4318"
            )
        run = run_named(options["run"], options["project"])
        file = options["state"] or settings.VAR / "traces" / f"{run.project.slug}-{run.slug}.json"
        self.groups = self.spans = 0
        try:
            self._send(run, Collector(settings.TRACES_ENDPOINT), file, options)
        except NoTarget as why:
            raise CommandError(str(why)) from None
        except KeyboardInterrupt:
            self.stdout.write("stopped; run the command again to continue")
        self.stdout.write(
            self.style.SUCCESS(f"{self.groups} groups of {run.slug} sent, {self.spans} spans")
        )

    def _send(self, run: Run, collector: Collector, file: Path, options: dict) -> None:
        patience = timedelta(seconds=options["patience"])
        while True:
            reread(run)
            is_over = run.state in Run.ENDED
            while some := list_settled_groups(
                run, last_group(file, run), GROUPS_AT_ONCE, patience, timezone.now()
            ):
                self.spans += collector.send(build_spans(run, some))
                self.groups += len(some)
                store_trace(file, run, some[-1].pk)
            if is_over or not options["follow"]:
                return
            time.sleep(POLL_S)


def last_group(file: Path, run: Run) -> int:
    """Return the id of the last group that a collector accepted; 0 for none of this run."""
    state = json.loads(file.read_text()) if file.exists() else {}
    return state["group"] if state.get("run") == run.pk else 0


def store_trace(file: Path, run: Run, group: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".tmp")
    aside.write_text(json.dumps({"run": run.pk, "group": group}))
    aside.replace(file)
