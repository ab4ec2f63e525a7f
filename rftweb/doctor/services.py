"""Checks of the database, the broker, and the supervisor of the embedded ones."""

import time
from collections.abc import Iterator

import psycopg
import redis
from django.conf import settings
from django.db import Error

from apps.runs import control_plane
from rftweb.doctor.finding import Finding, failed_finding, ok, warn
from rftweb.embedded import postgres_url, redis_url
from rftweb.embedded.binaries import MIN_POSTGRES_VERSION, MIN_REDIS_VERSION
from rftweb.supervisor import record

MEND_EMBEDDED = "start it with `manage.py up`, or set {variable} to your own server"


def check_supervisor() -> Iterator[Finding]:
    supervisor = record.read_record(settings.VAR)
    if not supervisor or not supervisor["alive"]:
        yield warn(
            "supervisor", f"none is running on {settings.VAR}", "start one with `manage.py up`"
        )
        return
    troubled = [name for name, child in supervisor["children"].items() if child["state"] != "ready"]
    if troubled:
        yield warn(
            "supervisor",
            f"not ready: {', '.join(troubled)}",
            f"see {settings.VAR / 'log'}/<role>.log",
        )
    else:
        yield ok(
            "supervisor",
            f"{len(supervisor['children'])} processes are running, {supervisor['address']}",
        )


def check_database() -> Iterator[Finding]:
    """Check that the database is reachable, recent, durable and fast."""
    embedded = postgres_url(settings.VAR) == settings.DATABASE_URL
    started = time.perf_counter()
    try:
        with psycopg.connect(settings.DATABASE_URL, connect_timeout=5) as connection:
            facts = connection.execute(
                "SELECT current_setting('server_version'),"
                " current_setting('server_version_num')::int / 10000, current_setting('fsync'),"
                " current_setting('full_page_writes'), current_setting('synchronous_commit'),"
                " current_user, pg_size_pretty(pg_database_size(current_database()))"
            ).fetchone()
    except psycopg.OperationalError as error:
        yield _unreachable("database", embedded, "DATABASE_URL", error)
        return
    assert facts is not None  # a query of functions returns one row
    version, major, fsync, full_pages, commit, user, size = facts
    milliseconds = (time.perf_counter() - started) * 1000
    origin = "embedded" if embedded else "your own"
    if major < MIN_POSTGRES_VERSION:
        yield failed_finding(
            "database",
            f"PostgreSQL {version} is too old",
            f"use version {MIN_POSTGRES_VERSION} or newer",
        )
    else:
        yield ok(
            "database",
            (
                f"PostgreSQL {version}, {origin}, user {user}, {size}, response time "
                f"{milliseconds:.0f} ms"
            ),
        )
    if (fsync, full_pages, commit) == ("on", "on", "on"):
        yield ok("durability", "fsync, full_page_writes and synchronous_commit are on")
    else:
        yield failed_finding(
            "durability",
            (
                f"fsync {fsync}, full_page_writes {full_pages}, synchronous_commit {commit}: a "
                "crash would lose acknowledged ratings"
            ),
            "turn all three on in postgresql.conf",
        )


def check_broker() -> Iterator[Finding]:
    """Check that the broker is reachable, recent, and never evicts data."""
    embedded = redis_url(settings.VAR) == settings.REDIS_URL
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=5, decode_responses=True
    )
    try:
        facts = client.info()
    except redis.RedisError as error:
        yield _unreachable("broker", embedded, "REDIS_URL", error)
        return
    finally:
        client.close()
    version = facts["redis_version"]
    name = "Valkey" if "valkey_version" in facts else "Redis"
    if tuple(map(int, version.split(".")[:2])) < MIN_REDIS_VERSION:
        yield failed_finding(
            "broker", f"{name} {version} is too old", "use Redis 6.2 or newer, or any Valkey"
        )
    else:
        yield ok(
            "broker",
            (
                f"{name} {facts.get('valkey_version', version)}, "
                f"{'embedded' if embedded else 'your own'}"
            ),
        )
    if facts.get("maxmemory_policy", "noeviction") != "noeviction":
        yield failed_finding(
            "broker",
            f"evicts keys ({facts['maxmemory_policy']})",
            "set maxmemory-policy noeviction",
        )
    if not facts.get("aof_enabled"):
        yield warn(
            "broker",
            "has no append-only file: after a restart, queued work is delayed by a sweep",
            "set appendonly yes",
        )


def check_control() -> Iterator[Finding]:
    """Check that control worker and beat are alive, and the last sweep is recent.

    Without a database there is nothing to report.
    """
    try:
        plane = control_plane.read_control_plane()
    except Error:
        return
    if plane.is_behind:
        yield failed_finding("control", plane.words, plane.todo)
    elif plane.workers and plane.beats:
        yield ok("control", f"last sweep {control_plane.duration(plane.behind_s)} ago")


def _unreachable(subject: str, embedded: bool, variable: str, error: Exception) -> Finding:
    if embedded:
        return warn(subject, "embedded, not running now", MEND_EMBEDDED.format(variable=variable))
    reason = str(error).strip().splitlines()[0]
    return failed_finding(subject, f"not reachable: {reason}", f"check {variable} and the server")
