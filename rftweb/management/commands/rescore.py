"""Score a run's stored rollouts again with the scorers of a YAML file, as a new set of rewards."""

import re
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.rewards.models import Rescored, Rescoring
from apps.rewards.rescoring.asking import NothingToRescore, scorers_in, start_rescoring
from apps.rewards.rescoring.choosing import Chosen
from apps.runs.config import ConfigError
from apps.runs.models import Worker
from rftweb.management.console import explained, run_named, show_progress_bar
from workers.rescoring import rescore
from workers.scorer_dispatch import grader
from workers.time_slices import register_worker

POLL_S = 0.5
STEPS = re.compile(r"(?P<from_step>\d*)-(?P<to_step>\d*)")


class Command(BaseCommand):
    help = __doc__ + (
        " This command scores and shares the work with running scorers, which finish what it "
        "leaves."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", help="slug of the run")
        parser.add_argument(
            "--rewards",
            type=Path,
            required=True,
            help="YAML: a list like a run's `rewards`, or a file that contains one",
        )
        parser.add_argument(
            "--steps", default="", help="steps that used the rollouts: 10-20, 10-, -20 or 15"
        )
        parser.add_argument("--domain", default="", help="only tasks of this domain")
        parser.add_argument(
            "--limit", type=int, help="maximum number of rollouts, the newest first (10,000)"
        )
        parser.add_argument("--project", help="slug of the project; optional if there is only one")

    def handle(self, **options: Any) -> None:
        run = run_named(options["run"], options["project"])
        path: Path = options["rewards"]
        try:
            chosen = Chosen.read(
                {**steps_in(options["steps"]), **_given_options(options, "domain", "limit")}
            )
            again = start_rescoring(run, scorers_in(path.read_text(encoding="utf-8")), chosen)
        except ConfigError as error:
            raise explained(error) from None
        except NothingToRescore as nothing:
            raise CommandError(str(nothing)) from None
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: {error}") from None
        self._judge(again)
        self._report(again)

    def _judge(self, again: Rescoring) -> None:
        me = register_worker(Worker.Role.SCORER)
        try:
            with show_progress_bar(f"rescoring {again.run.slug}, groups", again.groups) as progress:
                while again.is_open:
                    if not rescore(me.key, me.beat, only=again):
                        time.sleep(POLL_S)  # other scorers have leased the rest
                    again.refresh_from_db()
                    progress(again.done)
        finally:
            if grader.cache_info().currsize:
                grader().stop()
            me.stop()

    def _report(self, again: Rescoring) -> None:
        if again.state != Rescoring.State.DONE:
            raise CommandError(f"rescoring {again.pk} is {again.state}: {again.reason}")
        rows = Rescored.objects.filter(rescoring=again)
        words = ", ".join(
            f"{rows.filter(fate=fate).count():,} {label}" for fate, label in Rescored.Fate.choices
        )
        self.stdout.write(
            self.style.SUCCESS(
                f"rescoring {again.pk} of {again.run.slug}: {again.rollouts:,} rollouts; {words}"
            )
        )


def steps_in(text: str) -> dict[str, str]:
    """Parse `10-20`, `10-`, `-20` or `15`; an empty text gives nothing. Raise CommandError."""
    match = STEPS.fullmatch(text if "-" in text or not text else f"{text}-{text}")
    if text and (match is None or not any(match.groups())):
        raise CommandError(
            f"--steps: {text!r} is not a range of steps, such as 10-20, 10-, -20 or 15"
        )
    return {name: number for name, number in match.groupdict().items() if number} if match else {}


def _given_options(options: dict, *names: str) -> dict[str, object]:
    return {name: options[name] for name in names if options[name] is not None}
