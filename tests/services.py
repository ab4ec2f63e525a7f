"""A pytest plugin, loaded before settings are: embedded PostgreSQL and Valkey for the whole test
session.

If DATABASE_URL and REDIS_URL are set, nothing is started. Otherwise both servers live under a
private temporary folder and end with the session. Each of several test processes (pytest -n) has
its own pair: tests of two processes would use the same ids in Redis.
"""

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

# A power failure may lose the data of tests, which does not matter.
HASTY = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"

started = ExitStack()
# names the addresses that are not the caller's: pytest's other processes inherit them
OURS = "RFTWEB_TESTS_EMBEDDED"


def prepare() -> None:
    # The tests start hundreds of our processes; without byte code each compiles the source
    # again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # the models are small: more threads would only wait for each other
    os.environ.setdefault(
        "RFTWEB_LOG_ROWS", "0"
    )  # another thread would add rows after a test has ended
    if "PYTEST_XDIST_WORKER" in os.environ:
        for name in os.environ.get(OURS, "").split():
            del os.environ[name]
    missing = [name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)]
    if not missing:
        return
    from rftweb.embedded import running
    from tests.clusters import copy_migrated_cluster

    var = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="rftweb-tests-")))
    os.environ["RFTWEB_VAR"] = str(var)
    server = copy_migrated_cluster(var)
    with (server.data / "postgresql.conf").open("a") as file:
        file.write(HASTY)
    database, redis = started.enter_context(running(var))
    os.environ |= {name: {"DATABASE_URL": database, "REDIS_URL": redis}[name] for name in missing}
    os.environ[OURS] = " ".join(missing)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    started.close()


prepare()
