"""Statements that a rater waits for: the database plans them once per connection, then only executes them.

Planning the claim takes longer than executing it. psycopg prepares what it has sent `prepare_threshold` times over a connection
(an option of the database settings; None, which poolers of transactions need, never does).
"""

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper


def prepared_cursor() -> CursorWrapper:
    """A cursor of the connection whose values travel beside the statement, not within it. Use as a context manager."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        cursor = ServerBindingCursor(connection.connection)
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)
