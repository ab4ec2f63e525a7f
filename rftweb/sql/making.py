"""Keeps the views in step with the tables: away while migrations change these, back afterwards.

PostgreSQL changes no column that a view names. So whatever is to be migrated, the views go first and come back at the end,
when all migrations are applied; where nothing is to be migrated and they are as they should be, nothing is touched.
Grants come back by themselves: each reader has them as default privileges of the schema (`readers`).
"""

import hashlib

from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from psycopg import sql

from rftweb.sql.views import VIEWS

SCHEMA = "desk"
# A reader's query may hold a view for as long as readers' statements may take: 60 s.
PATIENCE = "SET LOCAL lock_timeout = '90s'"


def digest() -> str:
    """Of what the views are to be."""
    return "rftweb " + hashlib.sha256(repr(VIEWS).encode()).hexdigest()[:16]


def before_migrations(plan: list, **_: object) -> None:
    """Django's pre_migrate: take the views away when anything is to be migrated."""
    if plan:
        remove()


def after_migrations(stdout=None, verbosity: int = 1, **_: object) -> None:
    """Django's post_migrate: put them back, once all migrations are applied."""
    if is_made():
        return
    if not may_make():
        if stdout and verbosity:
            stdout.write(f"  The SQL views wait: this database's user may make no schema. {REMEDY}\n")
        return
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        make()


REMEDY = "As an administrator of the database: GRANT CREATE ON DATABASE … TO its user; then `manage.py migrate`."


def may_make() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT has_database_privilege(current_database(), 'CREATE') OR EXISTS "
            "(SELECT FROM pg_namespace WHERE nspname = %s AND pg_has_role(nspowner, 'USAGE'))", [SCHEMA],
        )  # fmt: skip
        return cursor.fetchone()[0]


def is_made() -> bool:
    """Whether the views are there, and as they should be."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [SCHEMA])
        return cursor.fetchone() == (digest(),)


@transaction.atomic
def make() -> None:
    """All views, with their words as comments."""
    remove()
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        for view in VIEWS:
            name = sql.Identifier(SCHEMA, view.name)
            cursor.execute(sql.SQL("CREATE VIEW {} AS ").format(name) + sql.SQL(view.sql))
            cursor.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, view.words))
            for column in view.columns:
                place = sql.Identifier(SCHEMA, view.name, column.name)
                cursor.execute(sql.SQL("COMMENT ON COLUMN {} IS {}").format(place, column.words))
        cursor.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(SCHEMA), digest()))


@transaction.atomic
def remove() -> None:
    """Every view of the schema, of older installations too; the schema stays, and with it who may look into it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT viewname FROM pg_views WHERE schemaname = %s", [SCHEMA])
        if names := [sql.Identifier(SCHEMA, name) for (name,) in cursor.fetchall()]:
            cursor.execute(PATIENCE)
            cursor.execute(sql.SQL("DROP VIEW {}").format(sql.SQL(", ").join(names)))
            cursor.execute(sql.SQL("COMMENT ON SCHEMA {} IS NULL").format(sql.Identifier(SCHEMA)))
