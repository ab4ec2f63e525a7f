"""Embedded PostgreSQL and Valkey (or Redis), for machines without DATABASE_URL or REDIS_URL.

Settings call `urls(var)`, which starts nothing. The supervisor, and tests through `running(var)`,
start the servers. Data, logs and secrets are under `var`; both servers listen on UNIX sockets in
private folders, without a port.
"""

from rftweb.embedded.postgres import PostgresServer, postgres_url
from rftweb.embedded.session import running
from rftweb.embedded.valkey import ValkeyServer, redis_url

__all__ = ["PostgresServer", "ValkeyServer", "postgres_url", "redis_url", "running", "urls"]


def urls(var) -> tuple[str, str]:
    """Return (DATABASE_URL, REDIS_URL) of the servers under `var`, running or not."""
    return postgres_url(var), redis_url(var)
