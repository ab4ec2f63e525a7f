"""Evaluate weight versions of a run on a taskset, without training."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pydantic import ValidationError

from apps.evaluation.asking import start_evaluation
from apps.runs.config import ConfigError
from apps.runs.evaluation import Questions
from apps.runs.models import Run, WeightVersion
from rftweb.management.commands.runs import reread
from rftweb.management.console import explained, run_named, show_progress_bar

POLL_S = 0.5


class Command(BaseCommand):
    help = __doc__ + " Workers do the work. Existing evaluations are repeated only with --force."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", help="slug of the run")
        weights_group = parser.add_mutually_exclusive_group()
        weights_group.add_argument(
            "--weights",
            type=int,
            metavar="VERSION",
            help="weight version to evaluate (default: the newest)",
        )
        weights_group.add_argument(
            "--all", action="store_true", help="all versions whose files are kept"
        )
        parser.add_argument("--taskset", required=True, help="slug of the taskset")
        parser.add_argument("--samples", type=int, help="replies to each task (4)")
        parser.add_argument("--tasks", type=int, help="number of tasks, from the start of the set")
        parser.add_argument("--temperature", type=float, help="default: the run's")
        parser.add_argument("--max-tokens", type=int, help="default: the run's")
        parser.add_argument(
            "--scorer",
            action="append",
            default=[],
            help="score with this scorer in place of the run's; repeatable",
        )
        parser.add_argument(
            "--force", action="store_true", help="repeat evaluations that already exist"
        )
        parser.add_argument(
            "--follow", action="store_true", help="wait for the result and show a progress bar"
        )
        parser.add_argument("--project", help="slug of the project; optional if there is only one")

    def handle(self, **options: Any) -> None:
        run = run_named(options["run"], options["project"])
        questions = _read_questions(options)
        for version in _versions(run, options):
            try:
                evaluation, is_new = start_evaluation(version, questions, force=options["force"])
            except ConfigError as error:
                raise explained(error) from None
            words = (
                f"{evaluation.tasks_asked} tasks, {questions.samples} replies each"
                if is_new
                else f"already exists, {evaluation.state}"
            )
            self.stdout.write(
                self.style.SUCCESS(f"version {version.version}: {evaluation.slug}: {words}")
            )
            if options["follow"]:
                self._follow(evaluation)

    def _follow(self, evaluation: Run) -> None:
        with show_progress_bar(evaluation.slug, evaluation.tasks_asked) as at:
            while evaluation.state not in Run.ENDED:
                at(evaluation.groups.exclude(closed_at=None).count())
                time.sleep(POLL_S)
                reread(evaluation)
            at(evaluation.groups.exclude(closed_at=None).count())
        self.stdout.write(f"{evaluation.slug} is {evaluation.state}")


def _read_questions(options: dict) -> Questions:
    options_by_name = {
        name: options[name] for name in ("taskset", "samples", "tasks", "temperature", "max_tokens")
    }
    values = {name: value for name, value in options_by_name.items() if value is not None}
    try:
        return Questions(**values, rewards=[{"scorer": name} for name in options["scorer"]])
    except ValidationError as wrong:
        error = wrong.errors()[0]
        raise CommandError(f"--{str(error['loc'][0]).replace('_', '-')}: {error['msg']}") from None


def _versions(run: Run, options: dict) -> list[WeightVersion]:
    published = run.weight_versions.filter(state=WeightVersion.State.PUBLISHED).order_by("version")
    if options["all"]:
        return list(published)
    number = run.published_version if options["weights"] is None else options["weights"]
    version = run.weight_versions.filter(version=number).first()
    if version is None:
        raise CommandError(
            f"--weights: {run.slug} has no version {number}; the newest is {run.published_version}"
        )
    return [version]
