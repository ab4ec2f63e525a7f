"""Score a run's stored rollouts again, by the scorers of a YAML file: a new set of rewards beside the first."""

import re
import time
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.rewards.models import Rescored, Rescoring
from apps.rewards.rescoring.asking import NothingToRescore, ask, scorers_in
from apps.rewards.rescoring.choosing import Chosen
from apps.runs.config import ConfigError
from apps.runs.models import Worker
from rftweb.management.console import bar, explained, run_named
from workers.answering import grader
from workers.rescoring import rescore
from workers.slices import register

POLL_S = 0.5
STEPS = re.compile(r"(?P<from_step>\d*)-(?P<to_step>\d*)")


class Command(BaseCommand):
    help = __doc__ + " It judges by itself, and shares the work with the scorers that are up; they finish what it leaves."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", help="slug of the run")
        parser.add_argument("--rewards", type=Path, required=True, help="YAML: a list as a run's `rewards`, or a file that has one")
        parser.add_argument("--steps", default="", help="updates that trained them: 10-20, 10-, -20 or 15")
        parser.add_argument("--domain", default="", help="tasks of this domain alone")
        parser.add_argument("--most", type=int, help="at most so many rollouts, the newest (10,000)")
        parser.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        run = run_named(options["run"], options["project"])
        path: Path = options["rewards"]
        try:
            chosen = Chosen.read({**steps_in(options["steps"]), **_told(options, "domain", "most")})
            again = ask(run, scorers_in(path.read_text(encoding="utf-8")), chosen)
        except ConfigError as error:
            raise explained(error) from None
        except NothingToRescore as nothing:
            raise CommandError(str(nothing)) from None
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: {error}") from None
        self._judge(again)
        self._tell(again)

    def _judge(self, again: Rescoring) -> None:
        me = register(Worker.Role.SCORER)
        try:
            with bar(f"scoring {again.run.slug} again, groups", again.groups) as progress:
                while again.is_open:
                    if not rescore(me.key, me.beat, only=again):
                        time.sleep(POLL_S)  # other scorers hold the rest
                    again.refresh_from_db()
                    progress(again.done)
        finally:
            if grader.cache_info().currsize:
                grader().stop()
            me.stop()

    def _tell(self, again: Rescoring) -> None:
        if again.state != Rescoring.State.DONE:
            raise CommandError(f"set {again.pk} is {again.state}: {again.reason}")
        rows = Rescored.objects.filter(rescoring=again)
        words = ", ".join(f"{rows.filter(fate=fate).count():,} {label}" for fate, label in Rescored.Fate.choices)
        self.stdout.write(self.style.SUCCESS(f"set {again.pk} of {again.run.slug}: {again.rollouts:,} rollouts; {words}"))


def steps_in(text: str) -> dict[str, str]:
    """The ends of `10-20`, `10-`, `-20` or `15`; nothing of an empty text. Raises CommandError."""
    found = STEPS.fullmatch(text if "-" in text or not text else f"{text}-{text}")
    if text and (found is None or not any(found.groups())):
        raise CommandError(f"--steps: {text!r} is no range of updates, such as 10-20, 10-, -20 or 15")
    return {name: number for name, number in found.groupdict().items() if number} if found else {}


def _told(options: dict, *names: str) -> dict[str, object]:
    return {name: options[name] for name in names if options[name] is not None}
