"""vLLM leaves calls unanswered when its process dies; our engine's calls end nevertheless."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest
from workers.engines.choose import build_engine
from workers.engines.interface import Engine, EngineDied

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
FOUND_WITHIN_SECONDS = 60


@pytest.fixture
def engine(old: Path) -> Iterator[Engine]:
    engine, _ = build_engine("vllm", temperature=1.0, seed=0)
    engine.start(old, 1, read_manifest(old).probe)
    yield engine
    engine.stop()


@pytest.mark.nightly
def test_load_without_requests_in_flight_notices_that_vllm_died(engine, old, new, eventually):
    endings: list[Exception] = []
    loads = count()

    def load_for_ever() -> None:
        try:
            for number in loads:
                folder = (old, new)[number % 2]
                engine.load(folder, number + 2, read_manifest(folder).probe)
        except Exception as ending:
            endings.append(ending)

    threading.Thread(target=load_for_ever, daemon=True).start()
    eventually(lambda: (engine.health(30).version or 0) >= 4, 300)
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGKILL)
    killed = time.monotonic()
    eventually(lambda: endings, FOUND_WITHIN_SECONDS)
    assert isinstance(endings[0], EngineDied)
    with pytest.raises(EngineDied):
        engine.drain(FOUND_WITHIN_SECONDS)
    assert not engine.health(1).alive
    assert time.monotonic() - killed < 2 * FOUND_WITHIN_SECONDS
