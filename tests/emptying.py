"""Empty the tables after a test that commits.

Django truncates every table and its indexes and then creates its content types and permissions
again, which takes longer than most tests. Here rows are deleted, except for rows of Django that no
test changes.
"""

from functools import cache

from django.db import connection, transaction

OF_DJANGO = {
    "django_content_type",
    "auth_permission",
}  # made by the migrations, the same for every test


@cache
def tables() -> list[str]:
    """Return the tables that tests write to."""
    found = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(found) - OF_DJANGO)


def empty_tables() -> None:
    """Delete all rows after waiting for other writers, as TRUNCATE would; their uncommitted work is
    deleted too.
    """
    lock = f"LOCK TABLE {', '.join(tables())} IN EXCLUSIVE MODE; "
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(lock + "; ".join(f"DELETE FROM {table}" for table in tables()))
