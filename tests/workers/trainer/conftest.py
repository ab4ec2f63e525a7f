"""A tiny untrained policy, trainer hosts that are stopped at the end, and a second process of
their trainer.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.runs.models import Run, Worker
from tests.ports import kept_port
from workers.policies.tiny import build_tiny
from workers.trainer.host import TrainerHost
from workers.trainer.lessons.host import LessonHost
from workers.trainer.loop import TrainerLoop
from workers.trainer.spec import TrainerSpec

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Use one thread: sums depend on the number of threads, and results are exact only for one."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "tiny"
    build_tiny(folder)
    return folder


@pytest.fixture
def spec(base: Path, tmp_path: Path) -> Callable[..., TrainerSpec]:
    def make(**fields: object) -> TrainerSpec:
        defaults = {
            "output": tmp_path / "checkpoints",
            "planned_steps": 8,
            "rows_per_step": 12,
            "warmup_steps": 0,
        }
        return TrainerSpec(policy=base, **{**defaults, **fields})

    return make


@pytest.fixture
def started() -> Iterator[Callable[..., TrainerHost]]:
    """Return a function that starts a host; all are stopped at the end."""
    hosts: list[TrainerHost] = []

    def start(spec: TrainerSpec, resume_from: Path | None = None) -> TrainerHost:
        hosts.append(TrainerHost(spec))
        hosts[-1].start(resume_from)
        return hosts[-1]

    yield start
    for host in hosts:
        host.stop()


@pytest.fixture
def new_loop(transactional_db, settings, tmp_path) -> Iterator[Callable[[], TrainerLoop]]:
    """Return a function that creates a trainer worker like a new process; all are stopped."""
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    made: list[TrainerLoop] = []

    def make() -> TrainerLoop:
        name = f"trainer@test:{len(made)}"
        made.append(
            TrainerLoop(
                Worker.objects.create(key=name, role=Worker.Role.TRAINER, host="test", pid=1)
            )
        )
        return made[-1]

    yield make
    for loop in made:
        loop.stop()


@pytest.fixture
def tiny_run(new_run, base: Path, policy: Policy) -> Callable[..., Run]:
    """Return a function that starts a run of a tiny policy: 6 steps of 2 groups of 4."""
    manifest = read_manifest(base)
    Policy.objects.filter(pk=policy.pk).update(folder=str(base), fingerprint=manifest.fingerprint)
    policy.refresh_from_db()

    def make(**changes: object) -> Run:
        plan = {
            "steps": 6,
            "group_size": 4,
            "checkpoints": {"every": 2},
            "optimizer": {"warmup_steps": 0, "learning_rate": 1e-3},
        }
        return new_run(**{**plan, **changes})

    return make


class SecondRank:
    """A rank as another machine would start it, which joins one process group after another.

    It is restarted whenever an error ends it, as by torch's launcher. An error can end it after the
    next test has begun, which would otherwise wait for a rank that no longer exists.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.process: subprocess.Popen | None = None
        self.stopping = threading.Event()
        self.keeper: threading.Thread | None = None

    def start(self) -> None:
        if self.keeper is None:
            self.keeper = threading.Thread(target=self._keep, name="second-rank", daemon=True)
            self.keeper.start()

    def stop(self) -> None:
        self.stopping.set()
        while self.keeper is not None and self.keeper.is_alive():
            if self.process is not None:
                self.process.kill()
            self.keeper.join(0.2)  # it may be starting another one

    def _keep(self) -> None:
        command = [sys.executable, "-m", "workers.trainer.rank"]
        command += ["--rendezvous", self.address, "--first-rank", "1"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        while not self.stopping.is_set():
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment)
            self.process.wait()


@pytest.fixture(scope="session")
def second_rank() -> Iterator[SecondRank]:
    keeper, port = kept_port()
    with keeper:
        second = SecondRank(f"127.0.0.1:{port}")
        yield second
        second.stop()


@pytest.fixture
def rendezvous(second_rank: SecondRank) -> str:
    """Return the address at which a second rank waits to join."""
    second_rank.start()
    return second_rank.address


@pytest.fixture
def in_two(rendezvous: str) -> Callable[..., TrainerSpec]:
    """Return a function that changes a spec to two processes, the second of them elsewhere."""

    def shared(spec: TrainerSpec, sharding: str = "ddp") -> TrainerSpec:
        elsewhere = {"ranks_here": 1, "rendezvous": rendezvous}
        return replace(spec, processes=2, sharding=sharding, **elsewhere)

    return shared


@pytest.fixture
def hosted() -> Iterator[Callable[..., TrainerHost]]:
    """Return a function that starts a host after stopping the previous one, since torch allows one
    process group at a time.
    """
    running: list[TrainerHost] = []

    def stop() -> None:
        while running:
            running.pop().stop()

    def start(
        spec: TrainerSpec, resume_from: Path | None = None, lessons: bool = False
    ) -> TrainerHost:
        stop()
        running.append(LessonHost(spec) if lessons else TrainerHost(spec))
        running[-1].start(resume_from)
        return running[-1]

    yield start
    stop()
