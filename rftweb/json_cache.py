"""Django's cache in PostgreSQL with JSON values, so that stored data is parsed and never executed.

Django's own database cache stores pickles, counts its table at each write, and beyond some hundred
entries drops valid ones, among them the limits of sign-in attempts. Here a write deletes a few
expired entries, and nothing else.
"""

import json
from datetime import UTC, datetime

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.db import BaseDatabaseCache
from django.db import connection

SWEPT = 10  # expired entries deleted with each write: more than it adds

GET = "SELECT value FROM {table} WHERE cache_key = %s AND expires > statement_timestamp()"
SET = """
    INSERT INTO {table} (cache_key, value, expires) VALUES (%s, %s, %s)
    ON CONFLICT (cache_key) DO UPDATE SET value = excluded.value, expires = excluded.expires"""
ADD = SET + " WHERE {table}.expires <= statement_timestamp()"
TOUCH = "UPDATE {table} SET expires = %s WHERE cache_key = %s AND expires > statement_timestamp()"
DELETE = "DELETE FROM {table} WHERE cache_key = %s"
SWEEP = """
    DELETE FROM {table} WHERE cache_key IN (
        SELECT cache_key FROM {table}
            WHERE expires <= statement_timestamp() ORDER BY expires LIMIT %s
        FOR NO KEY UPDATE SKIP LOCKED)"""
CLEAR = "DELETE FROM {table}"


class JsonCache(BaseDatabaseCache):
    """A cache of values that JSON can represent; tuples come back as lists.

    Other values raise TypeError. The table is made by createcachetable.
    """

    _table: str  # set by Django's class, which its stubs leave out

    def get(self, key, default=None, version=None):
        with connection.cursor() as cursor:
            cursor.execute(self._of_table(GET), [self.make_and_validate_key(key, version=version)])
            row = cursor.fetchone()
        return json.loads(row[0]) if row else default

    def set(self, key, value, timeout=DEFAULT_TIMEOUT, version=None) -> None:
        self._write(SET, self.make_and_validate_key(key, version=version), value, timeout)

    def add(self, key, value, timeout=DEFAULT_TIMEOUT, version=None) -> bool:
        """Add a value if the key is absent; return whether it was added.

        Of several simultaneous calls one returns True.
        """
        return self._write(ADD, self.make_and_validate_key(key, version=version), value, timeout)

    def touch(self, key, timeout=DEFAULT_TIMEOUT, version=None) -> bool:
        return self._do(
            TOUCH, self._end_of(timeout), self.make_and_validate_key(key, version=version)
        )

    def delete(self, key, version=None) -> bool:
        return self._do(DELETE, self.make_and_validate_key(key, version=version))

    def clear(self) -> None:
        self._do(CLEAR)

    def _write(self, statement: str, key: str, value: object, timeout: float | None) -> bool:
        stored = json.dumps(value, allow_nan=False)
        self._do(SWEEP, SWEPT)
        return self._do(statement, key, stored, self._end_of(timeout))

    def _do(self, statement: str, *values: str | int | datetime) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(self._of_table(statement), values)
            return cursor.rowcount > 0

    def _of_table(self, statement: str) -> str:
        return statement.format(table=connection.ops.quote_name(self._table))

    def _end_of(self, timeout: float | None) -> datetime | str:
        end = self.get_backend_timeout(timeout)
        return "infinity" if end is None else datetime.fromtimestamp(end, UTC)
