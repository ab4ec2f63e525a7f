"""Rows from which many tests begin: made once by each test process, put back for every test.

Times are moved as well, so that to each test its rows are as young as if they had just been made.
Ids are the same for all.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, transaction
from django.utils import timezone

from tests.emptying import empty_tables, tables

TIME = "timestamp with time zone"
BY_TRIGGERS = {"runs_usagetotal"}  # written with the rows that they sum up


class Kept:
    """What `make()` writes, copied into the schema `name` beside the tables, which are empty again
    afterwards.
    """

    def __init__(self, name: str, make: Callable[[], object]) -> None:
        elsewhere(make)
        made_at = timezone.now().isoformat()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"DROP SCHEMA IF EXISTS {name} CASCADE"
            )  # pytest --reuse-db: an earlier session's
            cursor.execute(f"CREATE SCHEMA {name}")
            self.statements = "; ".join(
                _kept(cursor, name, table, made_at) for table in _written(cursor)
            )
        empty_tables()

    def put_back(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.statements)


def elsewhere(act: Callable[[], object]) -> object:
    """Do it in a thread without an event loop: events are announced by async_to_sync, which refuses
    to run inside one.
    """

    def alone() -> object:
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(alone).result(timeout=300)


def _written(cursor) -> list[str]:
    """Tables that have rows which somebody wrote."""
    return [table for table in tables() if table not in BY_TRIGGERS and _has_rows(cursor, table)]


def _has_rows(cursor, table: str) -> bool:
    cursor.execute(f"SELECT EXISTS (SELECT FROM {table})")
    return cursor.fetchone()[0]


def _kept(cursor, name: str, table: str, made_at: str) -> str:
    """Copy the table; the statement that writes its rows back, their times moved by what has passed
    since.
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
