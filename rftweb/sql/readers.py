"""Database roles that read the SQL views and nothing else: create, renew, revoke."""

import re
import secrets

from django.db import connection, transaction
from psycopg import sql

from apps.accounts.models import AuditEntry
from rftweb.sql.making import SCHEMA, is_made

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
MARK = (  # the role's comment is this and the database's name
    "reads rftweb's views in "
)
CONNECTIONS = 5
LIMITS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
    "search_path": SCHEMA,
}


class NoReader(Exception):
    """The role cannot be made or revoked; the message says why and what to do."""


def make_reader(name: str) -> tuple[str, bool]:
    """Return the role's new password, and whether the role existed before.

    The password is not stored: PostgreSQL has its verifier.
    """
    _require(name)
    password = secrets.token_urlsafe(24)
    is_known = name in reader_names()
    with transaction.atomic(), connection.cursor() as cursor:
        if not is_known:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", [name])
            if cursor.fetchone()[0]:
                raise NoReader(
                    f"--name: there is a role {name!r} already that is no reader of this"
                    " installation; choose another"
                )
        verifier = connection.connection.pgconn.encrypt_password(
            password.encode(), name.encode(), b"scram-sha-256"
        ).decode()
        role = sql.Identifier(name)
        cursor.execute(
            sql.SQL(
                "{} ROLE {} LOGIN NOCREATEDB NOCREATEROLE NOINHERIT CONNECTION LIMIT {} PASSWORD {}"
            ).format(sql.SQL("ALTER" if is_known else "CREATE"), role, CONNECTIONS, verifier)
        )
        _grant(cursor, role)
        cursor.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, MARK + _database()))
        AuditEntry.record(
            "sql reader renewed" if is_known else "sql reader made", f"database role {name}"
        )
    return password, is_known


def _grant(cursor, role: sql.Identifier) -> None:
    schema = sql.Identifier(SCHEMA)
    database = sql.Identifier(_database())
    for words in (
        "GRANT CONNECT ON DATABASE {database} TO {role}",
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}",
    ):
        cursor.execute(sql.SQL(words).format(schema=schema, database=database, role=role))
    for setting, value in LIMITS.items():
        change = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
        cursor.execute(change.format(role, database, sql.Identifier(setting), value))


def revoke_reader(name: str) -> None:
    """Drop the role and end its connections. Raise NoReader if there is none."""
    if name not in reader_names():
        raise NoReader(
            f"--name: no reader {name!r}; there are: {', '.join(reader_names()) or 'none'}"
        )
    role = sql.Identifier(name)
    schema = sql.Identifier(SCHEMA)
    database = sql.Identifier(_database())
    opened = "SELECT pid FROM pg_stat_activity WHERE usename = %s AND datname = current_database()"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(opened, [name])  # nothing refers to a dropped role
        pids = [pid for (pid,) in cursor.fetchall()]
        for words in (
            "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} REVOKE SELECT ON TABLES FROM {role}",
            "REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}",
            "REVOKE ALL ON SCHEMA {schema} FROM {role}",
            "REVOKE ALL ON DATABASE {database} FROM {role}",
            "DROP ROLE {role}",
        ):
            cursor.execute(sql.SQL(words).format(schema=schema, database=database, role=role))
        AuditEntry.record("sql reader revoked", f"database role {name}")
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS opened (pid)", [pids]
        )


def reader_names() -> list[str]:
    """Return the reader roles of this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolname FROM pg_roles WHERE shobj_description(oid, 'pg_authid') = %s ORDER BY"
            " rolname",
            [MARK + _database()],
        )
        return [name for (name,) in cursor.fetchall()]


def _require(name: str) -> None:
    if not NAME.fullmatch(name):
        raise NoReader(
            f"--name: is {name!r}; it must be small letters, digits and underscores, and begin with"
            " no digit"
        )
    if not is_made():
        raise NoReader(
            "there are no views to read yet: run `manage.py migrate`, which says what it lacks"
        )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        )
        if not cursor.fetchone()[0]:
            raise NoReader(
                "this database's user may make no roles; as an administrator of the database:"
                " ALTER ROLE … CREATEROLE, or make the role by hand as docs/sql.md says (schema"
                f" {SCHEMA})"
            )


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        return cursor.fetchone()[0]
