"""Commits that do not wait for the disk."""

import pytest
from django.db import connection, transaction

from apps.accounts.durability import commit_without_waiting


def waits() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_commit_without_waiting_applies_only_to_this_transaction():
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")  # the servers of tests never wait
    with transaction.atomic():
        commit_without_waiting()
        assert waits() == "off"
    assert waits() == "on"
