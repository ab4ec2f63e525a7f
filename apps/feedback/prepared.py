"""Prepared statements for rating: planned once per connection, then only executed.

Planning the claim takes longer than executing it. psycopg prepares a statement after it was sent
`prepare_threshold` times over a connection (an option of the database settings; with None, which
transaction poolers need, it never does).
"""

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper


def prepared_cursor() -> CursorWrapper:
    """Return a cursor that sends values separately from the statement.

    Use as a context manager.
    """
    connection.ensure_connection()
    # Django's stubs take psycopg's cursor for Django's wrapper of it.
    with connection.wrap_database_errors:
        cursor = ServerBindingCursor(connection.connection)  # type: ignore[call-arg]
    return (
        connection.make_debug_cursor(cursor)  # type: ignore[arg-type]
        if connection.queries_logged
        else connection.make_cursor(cursor)  # type: ignore[arg-type]
    )
