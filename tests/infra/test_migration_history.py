"""A database that another version of rftweb has migrated is refused and left as it is."""

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
    """Give every app the name that its first migration once had."""
    MigrationRecorder.Migration.objects.filter(name="0001_schema").update(name="0001_initial")


def state() -> tuple:
    """Return what a migration would change: the tables, the history and the views."""
    tables = connection.introspection.table_names()
    return tables, MigrationRecorder(connection).applied_migrations().keys(), making.is_made()


def test_a_database_of_this_version_passes():
    assert check_history(["default"]) == []
    call_command("migrate", skip_checks=False, verbosity=0)


def test_a_database_of_an_earlier_commit_is_refused_before_anything_is_changed(
    of_an_earlier_commit,
):
    before = state()
    with pytest.raises(SystemCheckError, match=r"(?s)accounts\.0001_initial.*start with a new one"):
        call_command("migrate", skip_checks=False, verbosity=0)
    assert state() == before


def test_without_checks_such_a_database_is_not_taken_for_a_migrated_one(of_an_earlier_commit):
    before = state()
    with pytest.raises(InconsistentMigrationHistory):
        call_command("migrate", skip_checks=True, verbosity=0)
    assert state() == before


def test_a_database_of_a_newer_version_is_refused():
    MigrationRecorder(connection).record_applied("rollouts", "9999_later")
    (error,) = check_history(["default"])
    assert "rollouts.9999_later" in error.msg


def test_migrations_of_other_packages_are_left_to_them():
    MigrationRecorder(connection).record_applied("account", "9999_later")
    MigrationRecorder(connection).record_applied("a_package_that_was_removed", "0001_initial")
    assert list(unknown_migrations()) == []


def test_many_migrations_are_counted():
    assert "(a.1, a.2, a.3 and 2 more)" in describe_migrations(["a.1", "a.2", "a.3", "a.4", "a.5"])
    assert "(a.1)." in describe_migrations(["a.1"])
