"""One policy split over two processes, and two copies of it: all processes get the new weights."""

from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest
from tests.workers.engines.talking import Tolerance, ask, gaps
from workers.engines.choose import build_engine
from workers.engines.interface import Sampling
from workers.engines.vllm_options import VllmOptions

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
PROMPTS = [(5, 6, 7, place) for place in range(2, 18)]
SHORT = Sampling(max_tokens=12)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "options",
    [
        VllmOptions(tensor_parallel=2),
        VllmOptions(data_parallel=2),
    ],
)
def test_new_weights_reach_every_process(options: VllmOptions, old: Path, new: Path):
    engine, _ = build_engine("vllm", temperature=1.0, seed=0, vllm=options)
    engine.start(old, 1, read_manifest(old).probe)
    try:
        assert Tolerance(0.02, 0.2).holds(gaps(old, ask(engine, PROMPTS, SHORT)))
        engine.load(new, 2, read_manifest(new).probe)
        assert Tolerance(0.02, 0.2).holds(gaps(new, ask(engine, PROMPTS, SHORT)))
    finally:
        engine.stop()
