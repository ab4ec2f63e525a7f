"""A database that another version of rftweb has migrated is refused and not changed."""

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.exceptions import InconsistentMigrationHistory
from django.db.migrations.recorder import MigrationRecorder

from rftweb.migration_history import check_history, describe_migrations, unknown_migrations
from rftweb.sql import making

pytestmark = pytest.mark.django_db


@pytest.fixture
def of_an_earlier_commit() -> None:
    """Rename the first migration of every app to the name of an earlier commit."""
    MigrationRecorder.Migration.objects.filter(name="0001_schema").update(name="0001_initial")


def state() -> tuple:
    """Return what a migration would change: the tables, the history and the views."""
    tables = connection.introspection.table_names()
    return tables, MigrationRecorder(connection).applied_migrations().keys(), making.is_made()


def test_migration_history_of_this_version_passes_the_check():
    assert check_history(["default"]) == []
    call_command("migrate", skip_checks=False, verbosity=0)


def test_database_of_an_earlier_commit_is_refused_before_any_change(
    of_an_earlier_commit,
):
    before = state()
    with pytest.raises(SystemCheckError, match=r"(?s)accounts\.0001_initial.*start with a new one"):
        call_command("migrate", skip_checks=False, verbosity=0)
    assert state() == before


def test_migrate_refuses_a_database_of_an_earlier_commit_even_without_checks(of_an_earlier_commit):
    before = state()
    with pytest.raises(InconsistentMigrationHistory):
        call_command("migrate", skip_checks=True, verbosity=0)
    assert state() == before


def test_database_of_a_newer_version_is_refused():
    MigrationRecorder(connection).record_applied("rollouts", "9999_later")
    (error,) = check_history(["default"])
    assert "rollouts.9999_later" in error.msg


def test_unknown_migrations_of_other_packages_are_ignored():
    MigrationRecorder(connection).record_applied("account", "9999_later")
    MigrationRecorder(connection).record_applied("a_package_that_was_removed", "0001_initial")
    assert list(unknown_migrations()) == []


def test_long_list_of_migrations_is_shortened_with_a_count():
    assert "(a.1, a.2, a.3 and 2 more)" in describe_migrations(["a.1", "a.2", "a.3", "a.4", "a.5"])
    assert "(a.1)." in describe_migrations(["a.1"])
