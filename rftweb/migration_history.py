"""Refuse to migrate a database that another version of rftweb has migrated.

Django ignores applied migrations that it has no file for. Their tables exist already, so further
migrations would fail halfway or leave tables that fit neither version.
"""

from collections.abc import Iterator, Sequence

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

SHOWN = 3
REMEDY = (
    "Run the version that made this database, or start with a new one: set another RFTWEB_VAR, and"
    " another DATABASE_URL if you set one (docs/deploy.md, Databases of other versions)."
)


def check_history(databases: Sequence[str] | None = None, **_: object) -> list[CheckMessage]:
    """Return an error for each database with unknown migrations (a check of Django's).

    `manage.py migrate` names its database here and stops at an error, before it changes anything.
    """
    return [
        Error(f"{describe_migrations(names)} Nothing was changed.", hint=REMEDY, id="rftweb.E001")
        for alias in databases or ()
        if (names := list(unknown_migrations(alias)))
    ]


def unknown_migrations(alias: str = DEFAULT_DB_ALIAS) -> Iterator[str]:
    """Yield the applied migrations of our apps that this version has no file for."""
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("apps.")}
    on_disk = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    for label, name in sorted(applied):
        if label in ours and (label, name) not in on_disk:
            yield f"{label}.{name}"


def describe_migrations(names: Sequence[str]) -> str:
    """Say that the database has these migrations; name the first of them."""
    unnamed = len(names) - SHOWN
    more = f" and {unnamed} more" if unnamed > 0 else ""
    return (
        "Another version of rftweb made this database: it has migrations that this version doesn't"
        f" have ({', '.join(names[:SHOWN])}{more})."
    )
