#!/usr/bin/env python3
"""Check that the migrations describe the models, one per app, without a database.

`manage.py makemigrations --check` connects to the database to compare its history and warns if
no server answers, so its output depends on what is running. This script compares files with
models only, and skips the system checks, which import every page.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.migrations.loader import MigrationLoader

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django
    from django.db.migrations.loader import MigrationLoader

    django.setup()
    loader = MigrationLoader(None, ignore_no_migrations=True)
    later = list_later(loader)
    problems = list_conflicts(loader) or list_missing(loader)
    for problem in later + problems:
        print(problem)
    if later:
        print("Fold them into the app's 0001_schema: no database needs an upgrade yet.")
    if problems:
        print("Write the migrations with `manage.py makemigrations`.")
    if later or problems:
        return 1
    print("migrations: complete")
    return 0


def list_later(loader: MigrationLoader) -> list[str]:
    """List the migrations of our apps after the first.

    Before the first release, a database of another version is refused (rftweb.migration_history)
    instead of upgraded, so one migration per app is enough and the schema is read in one place.
    """
    from django.apps import apps

    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("apps.")}
    return [
        f"{label}.{name}: a second migration of its app"
        for label, name in sorted(loader.disk_migrations)
        if label in ours and name != "0001_schema"
    ]


def list_conflicts(loader: MigrationLoader) -> list[str]:
    """List apps with more than one last migration."""
    return [
        f"{label}: several last migrations: {', '.join(sorted(names))}"
        for label, names in sorted(loader.detect_conflicts().items())
    ]


def list_missing(loader: MigrationLoader) -> list[str]:
    """List the operations that `manage.py makemigrations` would write."""
    from django.apps import apps
    from django.db.migrations.autodetector import MigrationAutodetector
    from django.db.migrations.questioner import NonInteractiveMigrationQuestioner
    from django.db.migrations.state import ProjectState

    detector = MigrationAutodetector(
        loader.project_state(),
        ProjectState.from_apps(apps),
        NonInteractiveMigrationQuestioner(dry_run=True),
    )
    return [
        f"{label}: no migration for: {operation.describe()}"
        for label, migrations in sorted(detector.changes(graph=loader.graph).items())
        for migration in migrations
        for operation in migration.operations
    ]


if __name__ == "__main__":
    sys.exit(main())
