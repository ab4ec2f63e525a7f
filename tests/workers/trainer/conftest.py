"""A tiny untrained policy, and hosts that are stopped at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.runs.models import Run, Worker
from workers.policies.tiny import build_tiny
from workers.trainer.host import TrainerHost
from workers.trainer.spec import TrainerSpec
from workers.trainer.station import Trainer


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Sums depend on how they are cut into threads; exactness is promised for one."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "tiny"
    build_tiny(folder)
    return folder


@pytest.fixture
def spec(base: Path, tmp_path: Path) -> Callable[..., TrainerSpec]:
    def make(**fields: object) -> TrainerSpec:
        defaults = {"output": tmp_path / "checkpoints", "planned_steps": 8, "rows_per_step": 12, "warmup_steps": 0}
        return TrainerSpec(policy=base, **{**defaults, **fields})

    return make


@pytest.fixture
def started() -> Iterator[Callable[..., TrainerHost]]:
    """Start a host; all are stopped at the end."""
    hosts: list[TrainerHost] = []

    def start(spec: TrainerSpec, resume_from: Path | None = None) -> TrainerHost:
        hosts.append(TrainerHost(spec))
        hosts[-1].start(resume_from)
        return hosts[-1]

    yield start
    for host in hosts:
        host.stop()


@pytest.fixture
def new_station(transactional_db, settings, tmp_path) -> Iterator[Callable[[], Trainer]]:
    """A trainer worker as a fresh process would make it; all are stopped at the end."""
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    made: list[Trainer] = []

    def make() -> Trainer:
        name = f"trainer@test:{len(made)}"
        made.append(Trainer(Worker.objects.create(key=name, role=Worker.Role.TRAINER, host="test", pid=1)))
        return made[-1]

    yield make
    for station in made:
        station.stop()


@pytest.fixture
def tiny_run(new_run, base: Path, policy: Policy) -> Callable[..., Run]:
    """A started run of a real tiny policy: 6 steps of 2 groups of 4."""
    manifest = read_manifest(base)
    Policy.objects.filter(pk=policy.pk).update(folder=str(base), fingerprint=manifest.fingerprint)
    policy.refresh_from_db()

    def make(**changes: object) -> Run:
        plan = {"steps": 6, "group_size": 4, "checkpoints": {"every": 2}, "optimizer": {"warmup_steps": 0, "learning_rate": 1e-3}}
        return new_run(**{**plan, **changes})

    return make
