"""Score the lines of a file with the scorers they name; print value, reason and details as JSON.

With --regress, score the regression sets of the test bench instead.
"""

import json
from argparse import ArgumentParser
from itertools import islice
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import Project
from apps.rewards.lines import BadLine, list_scoring_questions, read_all
from rftweb.management.console import show_progress_bar
from rftweb.management.regress import regress as score_sets
from workers.scorer_dispatch import by_rule, grader

ALL = ""  # --regress without a project
AT_ONCE = 1_000  # lines read together; a group's lines must be within one such block


def _slug_filter(slug: str) -> dict[str, str]:
    return {} if slug == ALL else {"slug": slug}


class Command(BaseCommand):
    help = " ".join((__doc__ or "").split())
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            type=Path,
            nargs="?",
            help="JSON lines: scorer, response, answer, task, options",
        )
        parser.add_argument(
            "--regress",
            metavar="PROJECT",
            nargs="?",
            const=ALL,
            help="score the regression set of a project, or of all; ends with 1 if a case differs",
        )

    def handle(self, *, file: Path | None, regress: str | None, **options: object) -> None:
        if (file is None) == (regress is None):
            raise CommandError("give either a file or --regress")
        if file is None:
            self._regress(str(regress))
        else:
            self._score_file(file)

    def _regress(self, slug: str) -> None:
        projects = list(Project.objects.filter(**_slug_filter(slug)).order_by("slug"))
        if slug != ALL and not projects:
            raise CommandError(f"--regress: no project {slug!r}")
        try:
            differ = score_sets(projects, self.stdout.write)
        finally:
            if grader.cache_info().currsize:
                grader().stop()
        if differ:
            raise SystemExit(1)

    def _score_file(self, file: Path) -> None:
        try:
            with (
                file.open("rb") as stream,
                show_progress_bar(f"scoring {file.name}", file.stat().st_size) as progress,
            ):
                read = read_all(stream)
                while some := dict(islice(read, AT_ONCE)):
                    self._score(some)
                    progress(stream.tell())
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        finally:
            grader().stop()

    def _score(self, lines: dict) -> None:
        rows = {
            number: {"line": number, "error": str(bad), "value": None}
            for number, bad in lines.items()
            if isinstance(bad, BadLine)
        }
        questions = list_scoring_questions(
            {number: line for number, line in lines.items() if number not in rows}
        )
        for answer in by_rule(questions):
            for number, verdict in zip(answer.question.rollout_ids, answer.verdicts, strict=True):
                rows[number] = {
                    "value": verdict.value,
                    "reason": verdict.reason,
                    "details": verdict.details,
                }
        for number in lines:
            self.stdout.write(json.dumps(rows[number]))
