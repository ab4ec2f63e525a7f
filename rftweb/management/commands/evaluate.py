"""Evaluate weight versions of a run on a taskset: each task is asked once, some times over, and nothing is learned."""

import time
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from pydantic import ValidationError

from apps.feedback.evaluation.asking import evaluate
from apps.runs.config import ConfigError
from apps.runs.evaluation import Asked
from apps.runs.models import Run, WeightVersion
from rftweb.management.commands.runs import reread
from rftweb.management.console import bar, explained, run_named

POLL_S = 0.5


class Command(BaseCommand):
    help = __doc__ + " Workers do it; the same question is not asked twice, unless --again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", help="slug of the run")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--weights", type=int, metavar="VERSION", help="which of its weight versions (default: the newest)")
        which.add_argument("--all", action="store_true", help="every version whose folder is kept")
        parser.add_argument("--taskset", required=True, help="slug of the taskset that is asked")
        parser.add_argument("--samples", type=int, help="answers to each task (4)")
        parser.add_argument("--tasks", type=int, help="the first so many tasks alone")
        parser.add_argument("--temperature", type=float, help="default: the run's")
        parser.add_argument("--max-tokens", type=int, help="default: the run's")
        parser.add_argument("--scorer", action="append", default=[], help="judge by this one, not by the run's; may be said often")
        parser.add_argument("--again", action="store_true", help="ask once more what was asked already")
        parser.add_argument("--follow", action="store_true", help="wait for the end, with a progress bar")
        parser.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        run = run_named(options["run"], options["project"])
        asked = _asked(options)
        for version in _versions(run, options):
            try:
                made, is_new = evaluate(version, asked, again=options["again"])
            except ConfigError as error:
                raise explained(error) from None
            words = f"{made.tasks_asked} tasks, {asked.samples} answers each" if is_new else f"there already, {made.state}"
            self.stdout.write(self.style.SUCCESS(f"version {version.version}: {made.slug}: {words}"))
            if options["follow"]:
                self._follow(made)

    def _follow(self, made: Run) -> None:
        with bar(made.slug, made.tasks_asked) as at:
            while made.state not in Run.ENDED:
                at(made.groups.exclude(closed_at=None).count())
                time.sleep(POLL_S)
                reread(made)
            at(made.groups.exclude(closed_at=None).count())
        self.stdout.write(f"{made.slug} is {made.state}")


def _asked(options: dict) -> Asked:
    told = {name: options[name] for name in ("taskset", "samples", "tasks", "temperature", "max_tokens")}
    said = {name: value for name, value in told.items() if value is not None}
    try:
        return Asked(**said, rewards=[{"scorer": name} for name in options["scorer"]])
    except ValidationError as wrong:
        error = wrong.errors()[0]
        raise CommandError(f"--{str(error['loc'][0]).replace('_', '-')}: {error['msg']}") from None


def _versions(run: Run, options: dict) -> list[WeightVersion]:
    kept = run.weight_versions.filter(state=WeightVersion.State.PUBLISHED).order_by("version")
    if options["all"]:
        return list(kept)
    number = run.published_version if options["weights"] is None else options["weights"]
    found = run.weight_versions.filter(version=number).first()
    if found is None:
        raise CommandError(f"--weights: {run.slug} has no version {number}; the newest is {run.published_version}")
    return [found]
