"""A separate, complete installation with a tiny policy: embedded services, web, workers and beat
under the supervisor.

Its database is separate from the test session's, so that a test may kill it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
import redis
import yaml
from playwright.sync_api import Browser

from rftweb.embedded import postgres_url, redis_url
from rftweb.supervisor import Supervisor
from tests.browser.conftest import launched
from tests.clusters import copy_migrated_cluster
from tests.forked_commands import ForkedCommands
from tests.ports import kept_port

ROOT = Path(__file__).resolve().parents[2]
LEASE_SECONDS = 4
WEIGHTS_SECRET = "stack" * 8
# a run of a few steps takes 20 seconds on an idle machine, and much longer on a busy one
PATIENCE_S = 600
FURNISH = """
from pathlib import Path
from apps.accounts.models import Project, User
from apps.policies.registering import register_policy
from apps.tasksets.importing import generate
project, _ = Project.objects.get_or_create(slug="demo", defaults={"title": "Demo"})
User.objects.create_superuser("root", password="correct horse battery")
register_policy(project, "tiny", Path(%r), "built for a test", "Tiny")
generate(project, "sort", "sort", 200, 0)
"""


class Installation:
    """A running stack, with the commands and queries that tests use."""

    def __init__(self, stack: Supervisor, env: dict[str, str]) -> None:
        self.stack = stack
        self.env = env
        self._commands: ForkedCommands | None = None
        self._env_of_commands: dict[str, str] = {}

    def manage(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run `manage.py` for this installation, with its current environment."""
        if self._commands is None or self._env_of_commands != self.env:
            self.stop_commands()
            self._env_of_commands = dict(self.env)
            self._commands = ForkedCommands({**os.environ, **self.env})
        return self._commands.run(arguments, PATIENCE_S)

    def stop_commands(self) -> None:
        """End the process from which commands are forked; the next command starts another."""
        if self._commands is not None:
            self._commands.stop()
            self._commands = None

    def must(self, *arguments: str) -> str:
        done = self.manage(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stderr}{done.stdout}"
        return done.stdout

    def sql(self, query: str, *values: object) -> list[tuple]:
        with psycopg.connect(self.env["DATABASE_URL"], connect_timeout=5) as connection:
            return connection.execute(query, values).fetchall()

    def one(self, query: str, *values: object) -> object:
        """Return the single value of a query, or None while the database is unreachable."""
        try:
            return self.sql(query, *values)[0][0]
        except psycopg.OperationalError:
            return None

    def step(self, slug: str) -> int:
        return self.one("SELECT step FROM runs_run WHERE slug = %s", slug) or 0

    def begin(self, slug: str, folder: Path, **changes: object) -> None:
        """Create and start a run on the tiny policy."""
        plan = {
            "policy": "tiny",
            "taskset": "sort",
            "steps": 12,
            "group_size": 4,
            "groups_per_step": 4,
            "max_staleness": 1,
            "sampling": {"max_tokens": 8},
            "rewards": [{"scorer": "sort"}],
            "checkpoints": {"every": 4},
            "group_attempts": 10,
            "engine": "transformers",
            **changes,
        }
        file = folder / f"{slug}.yaml"
        file.write_text(yaml.safe_dump(plan))
        self.must("runs", "create", str(file), "--slug", slug, "--project", "demo", "--start")

    def wait(self, what: str, look: Callable[[], object], seconds: float = PATIENCE_S) -> object:
        ends = time.monotonic() + seconds
        while not (found := look()):
            assert self.stack.process.poll() is None, "the supervisor ended"
            assert time.monotonic() < ends, f"not within {seconds} s: {what}; {self.state()}"
            time.sleep(0.05)  # a polling interval, limited by the deadline
        return found

    def state(self) -> list[tuple]:
        return self.sql(
            "SELECT slug, state, state_reason, waiting_on, step, groups_opened, groups_dropped FROM"
            " runs_run"
        )

    def wait_completed(self, slug: str, seconds: float = PATIENCE_S) -> None:
        self.wait(
            f"{slug} completed",
            lambda: self.one("SELECT state FROM runs_run WHERE slug = %s", slug) == "completed",
            seconds,
        )

    def stop_runs(self) -> None:
        """Stop every run that has not ended."""
        left = "SELECT slug FROM runs_run WHERE state NOT IN ('stopped', 'completed')"
        for (slug,) in self.sql(left):
            self.must("runs", "stop", slug)

    def empty_redis(self) -> None:
        """Delete Redis's data, in memory and in its file: queues, wake-ups and streams."""
        with redis.Redis.from_url(redis_url(Path(self.env["RFTWEB_VAR"]))) as client:
            client.flushall()

    def violations(self) -> dict[str, list[str]]:
        return {
            check: found
            for check, found in json.loads(self.manage("reconcile", "--json").stdout).items()
            if found
        }


@contextmanager
def running(var: Path, counts: dict[str, int] | None = None, **env: str) -> Iterator[Installation]:
    copy_migrated_cluster(var)
    keeper, port = kept_port()
    settings = {
        "RFTWEB_VAR": str(var),
        "RFTWEB_LEASE_SECONDS": str(LEASE_SECONDS),
        "RFTWEB_SLICE_SECONDS": "3",
        "REDIS_URL": "",
        "OMP_NUM_THREADS": "1",
        "RFTWEB_WEIGHTS_SECRET": WEIGHTS_SECRET,
        **env,
    }
    settings["DATABASE_URL"] = ""
    settings.pop("RFTWEB_WEIGHTS", None)
    stack = Supervisor(var, env=settings, port=port, counts=counts, quiet=True)
    with keeper, ExitStack() as ending:
        ending.callback(stack.stop)
        stack.start()
        stack.wait_ready(PATIENCE_S)
        installation = Installation(stack, {**settings, "DATABASE_URL": postgres_url(var)})
        ending.callback(installation.stop_commands)
        yield installation


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """Build a sealed, untrained policy in a separate process."""
    folder = tmp_path_factory.mktemp("policies") / "tiny"
    code = (
        "from pathlib import Path; from workers.policies.tiny import build_tiny;"
        f" build_tiny(Path({str(folder)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)
    return folder


class SharedInstallation:
    """One installation for every file of a test process that asks for `installation`.

    A start costs more than most tests that use it: twelve processes import the application, two of
    them torch as well.
    """

    def __init__(self) -> None:
        self.current: Installation | None = None
        self._ending = ExitStack()

    def started(self, tmp_path_factory, tiny_folder: Path) -> Installation:
        """Return the installation; start one if there is none, or if its supervisor has ended."""
        if self.current is None or self.current.stack.process.poll() is not None:
            self.stop()
            installation = self._ending.enter_context(running(tmp_path_factory.mktemp("var")))
            installation.must("shell", "-c", FURNISH % str(tiny_folder))
            self.current = installation
        return self.current

    def stop(self) -> None:
        self.current = None
        self._ending.close()


shared = SharedInstallation()


@pytest.fixture(scope="module")
def installation(request, tmp_path_factory, tiny_folder) -> Iterator[Installation]:
    """Yield the process's installation; each test creates its own runs, with unique names."""
    failed_before = request.session.testsfailed
    installation = shared.started(tmp_path_factory, tiny_folder)
    yield installation
    if request.session.testsfailed > failed_before:
        shared.stop()  # so that the next file does not fail because of this one
    else:
        installation.stop_runs()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the installation before a file that does not use it: idle, it would still load the
    machine.
    """
    if nextitem is None or not (
        nextitem.path == item.path or "installation" in nextitem.fixturenames
    ):
        shared.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """Yield a list for process ids; continue these processes at the end in any case."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            continue
