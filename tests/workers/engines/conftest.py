"""Two versions of one untrained policy, and engines of each kind that serve them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest
from tests.workers.engines.talking import Tolerance, build_loud
from workers.engines.choose import build_engine
from workers.engines.interface import Engine

TOLERANCES = {"transformers": Tolerance(1e-4, 1e-3), "vllm": Tolerance(0.02, 0.2)}


@pytest.fixture(
    scope="module", params=["transformers", pytest.param("vllm", marks=pytest.mark.vllm)]
)
def engine_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def tolerance(engine_kind: str) -> Tolerance:
    return TOLERANCES[engine_kind]


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "old"
    build_loud(folder, seed=0)
    return folder


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "new"
    build_loud(folder, seed=1)
    return folder


class Engines:
    """Engines by temperature; a running one is reused, since some take long to start."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running: dict[float | None, tuple[Engine, int]] = {}

    def serving(self, folder: Path, temperature: float | None = 1.0) -> tuple[Engine, int]:
        """Return an engine that serves these weights, and their version in the engine."""
        probe = read_manifest(folder).probe
        if temperature in self.running:
            engine, version = self.running[temperature]
            version += 10
            engine.load(folder, version, probe)
        else:
            (engine, _), version = build_engine(self.kind, temperature=temperature, seed=0), 1
            engine.start(folder, version, probe)
        self.running[temperature] = engine, version
        return engine, version

    def stop(self) -> None:
        for engine, _ in self.running.values():
            engine.stop()


@pytest.fixture(scope="module")
def engines(engine_kind: str) -> Iterator[Engines]:
    engines = Engines(engine_kind)
    yield engines
    engines.stop()


@pytest.fixture
def fresh(engine_kind: str) -> Iterator[Callable[..., Engine]]:
    """Return a function that builds an engine that no other test uses, not started."""
    built: list[Engine] = []

    def make(seed: int | None = 0) -> Engine:
        built.append(build_engine(engine_kind, temperature=1.0, seed=seed)[0])
        return built[-1]

    yield make
    for engine in built:
        engine.stop()
