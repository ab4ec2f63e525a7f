"""List the algorithms that a run may use, or show one of them in full."""

import json
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from apps.runs.algorithms import describing
from apps.runs.algorithms.algorithm import unknown_algorithm
from apps.runs.algorithms.table import TABLE


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="show this algorithm with all options")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, name: str | None, **options: object) -> None:
        if name is not None and name not in TABLE:
            raise CommandError(unknown_algorithm(name))
        if options["json"]:
            document = (
                describing.algorithm_document(name)
                if name
                else [describing.algorithm_document(algorithm) for algorithm in TABLE]
            )
            self.stdout.write(json.dumps(document, indent=2))
        elif name:
            self._explain(name)
        else:
            self._list()

    def _list(self) -> None:
        lines = [
            dict(zip(describing.COLUMNS, describing.COLUMNS, strict=True)),
            *map(describing.cells, TABLE),
        ]
        widths = {column: max(len(line[column]) for line in lines) for column in describing.COLUMNS}
        for line in lines:
            self.stdout.write(
                "  ".join(
                    line[column].ljust(widths[column]) for column in describing.COLUMNS
                ).rstrip()
            )

    def _explain(self, name: str) -> None:
        row = TABLE[name]
        self.stdout.write(f"{row.title} ({describing.source(name)})\n{row.use}\n\nalgorithm:")
        options = list(describing.list_algorithm_fields(describing.of(name)))
        width = max(len(f"{field}: {_yaml(value)}") for field, value, _ in options)
        for field, value, meaning in options:
            self.stdout.write(f"  {f'{field}: {_yaml(value)}'.ljust(width)}  {meaning}".rstrip())


def _yaml(value: object) -> str:
    return json.dumps(value)
