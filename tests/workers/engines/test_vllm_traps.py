"""Problems found with vLLM, each tested again through our adapter."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest
from tests.descent import descendants, is_alive, is_called
from tests.workers.engines.talking import Talk, ask, build_loud, gaps
from workers.engines.choose import build_engine
from workers.engines.interface import Engine, EngineDied, Sampling

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[3]
LONG = Sampling(max_tokens=900)
CACHED_TOKENS = 300  # vLLM caches prefixes by blocks of 128 tokens on CPU


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Create two versions of a policy with room for long texts."""
    folders = [tmp_path_factory.mktemp("policies") / name for name in ("old", "new")]
    for seed, folder in enumerate(folders):
        build_loud(folder, seed=seed, hidden=64, layers=2, context=1024)
    return tuple(folders)


def serve(folder: Path) -> Engine:
    engine, _ = build_engine("vllm", temperature=1.0, seed=0)
    engine.start(folder, 1, read_manifest(folder).probe)
    return engine


@pytest.fixture(scope="module")
def lasting(versions: tuple[Path, Path]) -> Iterator[Engine]:
    """Start an engine shared by several tests, with version 1 (the first folder) loaded."""
    engine = serve(versions[0])
    yield engine
    engine.stop()


@dataclass
class Mortal:
    """An engine that a test may kill, and the processes vLLM started for it."""

    engine: Engine
    processes: list[int]

    @property
    def worker(self) -> int:
        """Return the pid of the process that computes."""
        (found,) = [pid for pid in self.processes if is_called(pid, "VLLM::Worker")]
        return found


@pytest.fixture
def mortal(versions: tuple[Path, Path]) -> Iterator[Mortal]:
    others = set(descendants(os.getpid()))
    engine = serve(versions[0])
    # Without multiprocessing's resource tracker, which lives as long as this process.
    yield Mortal(
        engine,
        [pid for pid in descendants(os.getpid()) if pid not in others and is_called(pid, "VLLM::")],
    )
    engine.stop()


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if is_alive(pid)]


def long_prompts(count: int) -> list[tuple[int, ...]]:
    draw = random.Random(0)
    return [tuple(draw.randrange(2, 20) for _ in range(CACHED_TOKENS)) for _ in range(count)]


# -- weights


def test_cache_of_old_weights_is_not_used_after_a_load(lasting, versions):
    old, new = versions
    short = Sampling(max_tokens=4)
    ask(lasting, long_prompts(4), short)
    lasting.load(new, 2, read_manifest(new).probe)
    after = gaps(new, ask(lasting, long_prompts(4), short))
    lasting.load(old, 3, read_manifest(old).probe)
    assert after.max() < 0.02


def test_seeded_replies_do_not_change_when_prompts_are_split_over_steps(lasting):
    seeded = Sampling(max_tokens=20, seed=5)
    prompts = long_prompts(12)
    alone = [Talk(lasting, [prompt], seeded).finish()[0].token_ids for prompt in prompts[:2]]
    together = [reply.token_ids for reply in Talk(lasting, prompts, seeded).finish()]
    assert together[:2] == alone


def test_loads_during_traffic_lose_no_token_and_mix_no_versions(lasting, versions):
    talk = Talk(lasting, long_prompts(8), Sampling(max_tokens=200))
    talk.until(talk.begun)
    trouble: list[Exception] = []

    def load_again_and_again() -> None:
        try:
            for version in range(10, 15):
                folder = versions[version % 2]
                lasting.load(folder, version, read_manifest(folder).probe)
        except Exception as error:
            trouble.append(error)

    loader = threading.Thread(target=load_again_and_again)
    loader.start()
    replies = talk.finish()
    loader.join()
    assert trouble == []
    assert {len(reply.token_ids) for reply in replies} == {200}
    said_by = {version for reply in replies for version in reply.versions}
    assert len(said_by) > 2
    for version in said_by:
        folder = versions[0] if version < 10 else versions[version % 2]
        assert gaps(folder, replies, version=version).max() < 0.02


# -- deaths


@pytest.mark.nightly
def test_killing_a_worker_process_stops_the_engine(mortal, eventually):
    talk = Talk(mortal.engine, long_prompts(4), LONG)
    talk.until(talk.begun)
    os.kill(mortal.worker, signal.SIGKILL)

    def died() -> bool:
        try:
            mortal.engine.drain(0.1)
        except EngineDied:
            return True
        return False

    eventually(died, 60)
    assert not mortal.engine.health(1.0).alive
    mortal.engine.stop()
    eventually(lambda: alive(mortal.processes) == [], 60)


@pytest.mark.nightly
def test_health_probe_detects_a_hanging_worker_process(mortal, eventually):
    assert mortal.engine.health(30.0).alive
    os.kill(mortal.worker, signal.SIGSTOP)
    health = mortal.engine.health(1.0)
    assert (health.alive, health.detail) == (False, "no answer within 1 s")
    mortal.engine.stop()
    eventually(lambda: alive(mortal.processes) == [], 60)


HOLDER = """
import sys
from pathlib import Path
from apps.policies.manifest import read_manifest
from workers.engines.choose import build_engine

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    engine, _ = build_engine("vllm", temperature=1.0, seed=0)
    engine.start(folder, 1, read_manifest(folder).probe)
    print("serving", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path, versions: tuple[Path, Path]) -> Iterator[subprocess.Popen]:
    """Start a separate process that holds an engine."""
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(script), str(versions[0])],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def engine_serves(holder: subprocess.Popen) -> bool:
    return any("serving" in line for line in holder.stdout)


def engine_starts_its_worker(holder: subprocess.Popen) -> bool:
    """Return whether the engine's process runs while its worker is still importing."""
    cores = [pid for pid in descendants(holder.pid) if is_called(pid, "VLLM::EngineCor")]
    return bool(cores and [pid for pid in descendants(cores[0]) if is_called(pid, "python")])


@pytest.mark.nightly
@pytest.mark.parametrize("moment", [engine_serves, engine_starts_its_worker])
def test_no_vllm_process_survives_when_its_holder_is_killed(
    holder, eventually, moment: Callable[[subprocess.Popen], bool]
):
    eventually(lambda: moment(holder), 400)
    processes = descendants(holder.pid)
    assert processes
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    eventually(lambda: alive(processes) == [], 60)
