"""Make, renew or revoke a role of the database that reads the views of docs/sql.md and nothing else."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from rftweb.sql import readers


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", help="the role; one that is there gets a new password")
        parser.add_argument("--revoke", action="store_true", help="take the role away, and end its connections")

    def handle(self, **options: object) -> None:
        name = options["name"]
        try:
            if name is None:
                self._list(options["revoke"])
            elif options["revoke"]:
                readers.revoke(name)
                self.stdout.write(self.style.SUCCESS(f"{name} reads nothing any more"))
            else:
                self._make(name)
        except readers.NoReader as why:
            raise CommandError(str(why)) from None

    def _list(self, is_revoke: bool) -> None:
        if is_revoke:
            raise CommandError("--revoke: say which by --name")
        self.stdout.write("\n".join(readers.names()) or "no readers; make one with --name")

    def _make(self, name: str) -> None:
        password, was_there = readers.make(name)
        where = connection.get_connection_params()
        place = f"host={where.get('host', '')} port={where.get('port', 5432)} dbname={where['dbname']}"
        self.stdout.write(self.style.SUCCESS(f"{name} {'has a new password' if was_there else 'is made'}; it is shown this once:"))
        self.stdout.write(f"  user={name} password={password} {place}")
