"""Rows from which many tests begin: each test process creates them once and restores them for every
test.

Times are moved too, so that in each test the rows look as if they had just been created. Ids are
the same in all tests.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, transaction
from django.utils import timezone

from tests.emptying import empty_tables, tables

TIME = "timestamp with time zone"
BY_TRIGGERS = {"runs_usagetotal"}  # summaries, written together with their rows
# Rows that satisfied all constraints when they were created need no second check, which takes as
# long as writing them, and no triggers. Only a superuser of the server can turn them off.
AS_COPIES = "SET session_replication_role = replica"
AS_EVER = "SET session_replication_role = DEFAULT"


class Kept:
    """The rows that `make()` writes, copied into the schema `name`; the tables are empty again
    afterwards.
    """

    def __init__(self, name: str, make: Callable[[], object]) -> None:
        elsewhere(make)
        made_at = timezone.now().isoformat()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"DROP SCHEMA IF EXISTS {name} CASCADE"
            )  # left by an earlier session with pytest --reuse-db
            cursor.execute(f"CREATE SCHEMA {name}")
            is_whole = _may_copy_rows(cursor)
            written = _written(cursor) if is_whole else _written(cursor) - BY_TRIGGERS
            rows = [_kept(cursor, name, table, made_at) for table in sorted(written)]
            self.statements = "; ".join([AS_COPIES, *rows, AS_EVER] if is_whole else rows)
        empty_tables()

    def put_back(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.statements)


def elsewhere(act: Callable[[], object]) -> object:
    """Call `act` in a thread without an event loop, because events are announced by async_to_sync,
    which refuses to run inside one.
    """

    def alone() -> object:
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(alone).result(timeout=300)


def _may_copy_rows(cursor) -> bool:
    cursor.execute("SELECT current_setting('is_superuser')::boolean")
    return cursor.fetchone()[0]


def _written(cursor) -> set[str]:
    """Return the tables that have rows."""
    return {table for table in tables() if _has_rows(cursor, table)}


def _has_rows(cursor, table: str) -> bool:
    cursor.execute(f"SELECT EXISTS (SELECT FROM {table})")
    return cursor.fetchone()[0]


def _kept(cursor, name: str, table: str, made_at: str) -> str:
    """Copy the table and return the statement that restores its rows, with times moved by the time
    that has passed since.
    """
    cursor.execute(f"CREATE TABLE {name}.{table} AS TABLE {table}")
    cursor.execute(
        "SELECT quote_ident(column_name), data_type FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = %s AND is_generated = 'NEVER'",
        [table],
    )
    columns = dict(cursor.fetchall())
    passed = f" + (statement_timestamp() - '{made_at}')"
    values = [column + (passed if kind == TIME else "") for column, kind in columns.items()]
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {name}.{table}"
    )
