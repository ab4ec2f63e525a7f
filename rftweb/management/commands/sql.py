"""Query the views of docs/sql.md in a read-only transaction; print CSV or JSON lines."""

import csv
import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from rftweb.sql.making import SCHEMA, is_made

ROWS_AT_ONCE = 1_000
MAX_SECONDS = 1_000_000  # PostgreSQL counts the milliseconds in 32 bits


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("query", help="one SELECT, VALUES or WITH … SELECT")
        form = parser.add_mutually_exclusive_group()
        form.add_argument(
            "--csv", action="store_true", help="include a header line (default without options)"
        )
        form.add_argument("--json", action="store_true", help="print one JSON object per line")
        parser.add_argument(
            "--seconds", type=int, default=60, help="time limit for the query, in seconds (60)"
        )

    def handle(self, **options: Any) -> None:
        if not is_made():
            raise CommandError(
                "the views do not exist yet: run `manage.py migrate`, which says what is missing"
            )
        if not 1 <= options["seconds"] <= MAX_SECONDS:
            raise CommandError(
                f"--seconds: is {options['seconds']}; it must be from 1 to {MAX_SECONDS}"
            )
        try:
            rows = run_query(options["query"], options["seconds"])
            self._json(rows) if options["json"] else self._csv(rows)
        except psycopg.Error as error:
            raise CommandError(str(error).strip()) from None
        except BrokenPipeError:  # `| head`
            sys.stderr.close()

    def _csv(self, rows: Iterator[tuple]) -> None:
        write = csv.writer(self.stdout, lineterminator="\n")
        for row in rows:
            write.writerow(row)

    def _json(self, rows: Iterator[tuple]) -> None:
        names = next(rows)
        for row in rows:
            self.stdout.write(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str)
            )


def run_query(query: str, seconds: int) -> Iterator[tuple]:
    """Yield the column names, then the rows, a few at a time.

    A server-side cursor accepts only a single query that does not write.
    """
    with transaction.atomic():
        with connection.cursor() as settings:
            settings.execute("SET TRANSACTION READ ONLY")
            settings.execute(f"SET LOCAL search_path = {SCHEMA}")
            settings.execute("SELECT set_config('statement_timeout', %s, true)", [f"{seconds}s"])
        with psycopg.ServerCursor(connection.connection, "query") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(query)
            yield tuple(column.name for column in cursor.description or ())
            yield from cursor
