"""A pytest plugin, loaded before settings are: embedded PostgreSQL and Valkey for the whole test session.

With DATABASE_URL and REDIS_URL set nothing is started. Otherwise both servers live under a private temporary
folder and end with the session.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

started = ExitStack()


def prepare() -> None:
    if os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL"):
        return
    from rftweb.embedded import running

    var = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="rftweb-tests-")))
    os.environ["RFTWEB_VAR"] = str(var)
    database, redis = started.enter_context(running(var))
    os.environ.setdefault("DATABASE_URL", database)
    os.environ.setdefault("REDIS_URL", redis)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    started.close()


prepare()
