"""Judge the lines of a file with the scorers they name: a JSON line of value, reason and details for each."""

import json
from argparse import ArgumentParser
from itertools import islice
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.rewards.lines import BadLine, questions, read_all
from rftweb.management.console import bar
from workers.answering import by_rule, grader

AT_ONCE = 1_000  # lines read together; a group's lines must stand within as many


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="JSON lines: scorer, response, answer, task, options")

    def handle(self, *, file: Path, **options: object) -> None:
        try:
            with file.open("rb") as stream, bar(f"scoring {file.name}", file.stat().st_size) as progress:
                read = read_all(stream)
                while some := dict(islice(read, AT_ONCE)):
                    self._score(some)
                    progress(stream.tell())
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        finally:
            grader().stop()

    def _score(self, lines: dict) -> None:
        said = {
            number: {"line": number, "error": str(bad), "value": None} for number, bad in lines.items() if isinstance(bad, BadLine)
        }
        asked = questions({number: line for number, line in lines.items() if number not in said})
        for answer in by_rule(asked):
            for number, verdict in zip(answer.question.rollout_ids, answer.verdicts, strict=True):
                said[number] = {"value": verdict.value, "reason": verdict.reason, "details": verdict.details}
        for number in lines:
            self.stdout.write(json.dumps(said[number]))
