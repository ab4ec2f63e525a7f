"""Look for connections that wait for locks in the database of the tests."""

from django.db import connection

WAITS = (
    "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND"
    " datname = current_database())"
)


def somebody_waits() -> bool:
    """Return whether any connection waits for a lock that another one holds."""
    with connection.cursor() as cursor:
        cursor.execute(WAITS)
        return cursor.fetchone()[0]
