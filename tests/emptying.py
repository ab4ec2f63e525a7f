"""Empties the tables after a test that commits.

Django's own way cuts every table's file and index files off and then makes its content types and
permissions anew: it takes longer than most tests. Here rows are deleted, and those of Django's that
no test changes are left.
"""

from functools import cache

from django.db import connection, transaction

OF_DJANGO = {
    "django_content_type",
    "auth_permission",
}  # made by the migrations, the same for every test


@cache
def tables() -> list[str]:
    """Those that tests write to."""
    found = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(found) - OF_DJANGO)


def empty_tables() -> None:
    """Waits until nobody else is writing, as a cut would: what another connection has begun is gone
    afterwards too.
    """
    lock = f"LOCK TABLE {', '.join(tables())} IN EXCLUSIVE MODE; "
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(lock + "; ".join(f"DELETE FROM {table}" for table in tables()))
