"""Create, renew or revoke a database role that can only read the views of docs/sql.md."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from rftweb.sql import readers


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", help="name of the role; an existing role gets a new password")
        parser.add_argument(
            "--revoke", action="store_true", help="delete the role and end its connections"
        )

    def handle(self, **options: Any) -> None:
        name = options["name"]
        try:
            if name is None:
                self._list(options["revoke"])
            elif options["revoke"]:
                readers.revoke_reader(name)
                self.stdout.write(self.style.SUCCESS(f"{name} can read nothing any more"))
            else:
                self._make(name)
        except readers.NoReader as why:
            raise CommandError(str(why)) from None

    def _list(self, is_revoke: bool) -> None:
        if is_revoke:
            raise CommandError("--revoke: name the role with --name")
        self.stdout.write("\n".join(readers.reader_names()) or "no readers; create one with --name")

    def _make(self, name: str) -> None:
        password, was_there = readers.make_reader(name)
        where = connection.get_connection_params()
        place = (
            f"host={where.get('host', '')} port={where.get('port', 5432)} dbname={where['dbname']}"
        )
        self.stdout.write(
            self.style.SUCCESS(
                f"{name} {'has a new password' if was_there else 'is created'}; it is shown only "
                "once:"
            )
        )
        self.stdout.write(f"  user={name} password={password} {place}")
