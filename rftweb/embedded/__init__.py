"""PostgreSQL and Valkey (or Redis) of our own, for machines where nobody set DATABASE_URL or REDIS_URL.

Settings ask for `urls(var)`, which starts nothing. The supervisor, and tests through `running(var)`, start the
servers. Data, logs and secrets lie under `var`; both servers listen on UNIX sockets in private folders, no port.
"""

from rftweb.embedded.postgres import PostgresServer, postgres_url
from rftweb.embedded.session import running
from rftweb.embedded.valkey import ValkeyServer, redis_url

__all__ = ["PostgresServer", "ValkeyServer", "postgres_url", "redis_url", "running", "urls"]


def urls(var) -> tuple[str, str]:
    """(DATABASE_URL, REDIS_URL) of the servers whose data lies under `var`, whether they run or not."""
    return postgres_url(var), redis_url(var)
