"""Roles of the database that read the views and nothing else: made, renewed, revoked."""

import re
import secrets

from django.db import connection, transaction
from psycopg import sql

from apps.accounts.models import AuditEntry
from rftweb.sql.making import SCHEMA, is_made

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
MARK = "reads rftweb's views in "  # the role's comment, before the database's name: whose role it is
CONNECTIONS = 5
LIMITS = {
    "default_transaction_read_only": "on", "statement_timeout": "60s", "idle_in_transaction_session_timeout": "60s",
    "search_path": SCHEMA,
}  # fmt: skip


class NoReader(Exception):
    """The role cannot be made or revoked; the message says why and what to do."""


def make(name: str) -> tuple[str, bool]:
    """(its new password, whether the role was there before). The password is kept nowhere: PostgreSQL has its verifier."""
    _require(name)
    password = secrets.token_urlsafe(24)
    is_known = name in names()
    with transaction.atomic(), connection.cursor() as cursor:
        if not is_known:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", [name])
            if cursor.fetchone()[0]:
                raise NoReader(f"--name: there is a role {name!r} already that is no reader of this installation; choose another")
        verifier = connection.connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        role = sql.Identifier(name)
        cursor.execute(
            sql.SQL("{} ROLE {} LOGIN NOCREATEDB NOCREATEROLE NOINHERIT CONNECTION LIMIT {} PASSWORD {}").format(
                sql.SQL("ALTER" if is_known else "CREATE"), role, CONNECTIONS, verifier
            )
        )
        _grant(cursor, role)
        cursor.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, MARK + _database()))
        AuditEntry.record("sql reader renewed" if is_known else "sql reader made", f"database role {name}")
    return password, is_known


def _grant(cursor, role: sql.Identifier) -> None:
    schema, database = sql.Identifier(SCHEMA), sql.Identifier(_database())
    for words in (
        "GRANT CONNECT ON DATABASE {database} TO {role}",
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}",
    ):
        cursor.execute(sql.SQL(words).format(schema=schema, database=database, role=role))
    for setting, value in LIMITS.items():
        words = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
        cursor.execute(words.format(role, database, sql.Identifier(setting), value))


def revoke(name: str) -> None:
    """Take the role away, and end what it is connected by. Raises NoReader when there is none."""
    if name not in names():
        raise NoReader(f"--name: no reader {name!r}; there are: {', '.join(names()) or 'none'}")
    role, schema, database = sql.Identifier(name), sql.Identifier(SCHEMA), sql.Identifier(_database())
    opened = "SELECT pid FROM pg_stat_activity WHERE usename = %s AND datname = current_database()"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(opened, [name])  # a role that is gone names none of them
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
        cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS opened (pid)", [pids])


def names() -> list[str]:
    """Those of this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolname FROM pg_roles WHERE shobj_description(oid, 'pg_authid') = %s ORDER BY rolname", [MARK + _database()]
        )
        return [name for (name,) in cursor.fetchall()]


def _require(name: str) -> None:
    if not NAME.fullmatch(name):
        raise NoReader(f"--name: is {name!r}; it must be small letters, digits and underscores, and begin with no digit")
    if not is_made():
        raise NoReader("there are no views to read yet: run `manage.py migrate`, which says what it lacks")
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        if not cursor.fetchone()[0]:
            raise NoReader(
                "this database's user may make no roles; as an administrator of the database: ALTER ROLE … CREATEROLE, "
                f"or make the role by hand as docs/sql.md says (schema {SCHEMA})"
            )


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        return cursor.fetchone()[0]
