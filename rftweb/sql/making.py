"""Keep the SQL views in step with the tables: drop them before migrations, recreate them after.

PostgreSQL alters no column that a view uses. So if there is anything to migrate, the views are
dropped first and recreated when all migrations are applied; otherwise, if they are up to date,
nothing is touched. Grants come back by themselves: each reader has them as default privileges of
the schema (`readers`).
"""

import hashlib

from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from psycopg import sql

from rftweb.sql.views import VIEWS

SCHEMA = "reporting"
# A reader's query may lock a view for as long as readers' statements may run: 60 s.
PATIENCE = "SET LOCAL lock_timeout = '90s'"


def digest_views() -> str:
    """Return a digest of the wanted views."""
    return "rftweb " + hashlib.sha256(repr(VIEWS).encode()).hexdigest()[:16]


def before_migrations(plan: list, **_: object) -> None:
    """Drop the views if anything is to be migrated (Django's pre_migrate)."""
    if plan:
        drop_views()


def after_migrations(stdout=None, verbosity: int = 1, **_: object) -> None:
    """Recreate the views once all migrations are applied (Django's post_migrate)."""
    if is_made():
        return
    if not may_make():
        if stdout and verbosity:
            stdout.write(
                f"  The SQL views wait: this database's user may make no schema. {REMEDY}\n"
            )
        return
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        make_views()


REMEDY = (
    "As an administrator of the database: GRANT CREATE ON DATABASE … TO its user; then `manage.py"
    " migrate`."
)


def may_make() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT has_database_privilege(current_database(), 'CREATE') OR EXISTS "
            "(SELECT FROM pg_namespace WHERE nspname = %s AND pg_has_role(nspowner, 'USAGE'))",
            [SCHEMA],
        )
        return cursor.fetchone()[0]


def is_made() -> bool:
    """Tell whether the views exist and are up to date."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s",
            [SCHEMA],
        )
        return cursor.fetchone() == (digest_views(),)


@transaction.atomic
def make_views() -> None:
    """Create all views, with their descriptions as comments."""
    drop_views()
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        for view in VIEWS:
            name = sql.Identifier(SCHEMA, view.name)
            cursor.execute(sql.SQL("CREATE VIEW {} AS ").format(name) + sql.SQL(view.sql))
            cursor.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, view.words))
            for column in view.columns:
                place = sql.Identifier(SCHEMA, view.name, column.name)
                cursor.execute(sql.SQL("COMMENT ON COLUMN {} IS {}").format(place, column.words))
        cursor.execute(
            sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(SCHEMA), digest_views())
        )


@transaction.atomic
def drop_views() -> None:
    """Drop every view of the schema, also those of older installations.

    The schema stays, and with it the grants on it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT viewname FROM pg_views WHERE schemaname = %s", [SCHEMA])
        if names := [sql.Identifier(SCHEMA, name) for (name,) in cursor.fetchall()]:
            cursor.execute(PATIENCE)
            cursor.execute(sql.SQL("DROP VIEW {}").format(sql.SQL(", ").join(names)))
            cursor.execute(sql.SQL("COMMENT ON SCHEMA {} IS NULL").format(sql.Identifier(SCHEMA)))
