"""A temporary installation for a benchmark: PostgreSQL, Redis, migrated tables, Django set up."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def installation(**settings: str) -> Iterator[Path]:
    """Yield the folder of a temporary installation.

    This process and its children find it by environment variables; `settings` are further ones.
    """
    from rftweb.embedded import running

    with (
        tempfile.TemporaryDirectory(prefix="rftweb-bench-") as var,
        running(Path(var)) as (database, redis),
    ):
        os.environ.update(
            DATABASE_URL=database,
            REDIS_URL=redis,
            RFTWEB_VAR=var,
            DJANGO_SETTINGS_MODULE="rftweb.settings",
            RFTWEB_LOG_LEVEL="WARNING",
            **settings,
        )
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        call_command("createcachetable", verbosity=0)
        yield Path(var)
