"""The order in which vLLM is told to take memory, load, clear its cache and continue; checked
against the signatures of its own class.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from unittest.mock import AsyncMock, call, create_autospec

import pytest

from apps.policies.manifest import read_manifest
from workers.engines.vllm_options import VllmOptions

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
AWAKE_AGAIN = [call.reset_prefix_cache(reset_running_requests=True), call.resume_generation()]


@pytest.fixture
def llm() -> AsyncMock:
    from vllm.v1.engine.async_llm import AsyncLLM

    return create_autospec(AsyncLLM, instance=True)


def held(llm: AsyncMock, level: int, folder: Path):
    from workers.engines.vllm_weights import HeldWeights

    return HeldWeights(llm, VllmOptions(sleep_level=level), read_manifest(folder).fingerprint)


def run(*acts: Coroutine) -> None:
    async def in_turn() -> None:
        for act in acts:
            await act

    asyncio.run(in_turn())


def replace(folder: Path) -> object:
    return call.collective_rpc("replace_weights", args=(str(folder),))


def wake(part: str) -> object:
    return call.wake_up(tags=[part])


@pytest.mark.parametrize("level", [1, 2])
def test_new_weights_are_loaded_before_the_cache_gets_its_memory_back(llm, old, new, level):
    weights = held(llm, level, old)
    run(weights.sleep(), weights.bring(new))
    asked = [wake("weights"), replace(new), wake("kv_cache"), *AWAKE_AGAIN]
    assert llm.method_calls == [call.sleep(level=level), *asked]
    assert not weights.is_asleep


@pytest.mark.parametrize(("level", "reads"), [(1, 0), (2, 1)])
def test_level_1_wakes_without_reading_and_level_2_reads_weights_again(llm, old, level, reads):
    weights = held(llm, level, old)
    run(weights.sleep())
    run(weights.bring_back(weights.now, old))
    assert llm.method_calls[:2] == [call.sleep(level=level), wake("weights")]
    assert llm.method_calls[-3:] == [wake("kv_cache"), *AWAKE_AGAIN]
    assert (llm.collective_rpc.await_count, weights.is_asleep) == (reads, False)


def test_unreadable_weights_are_replaced_by_the_previous_ones(llm, old, new):
    weights = held(llm, 0, old)
    before = weights.now
    llm.collective_rpc.side_effect = [OSError("torn"), None]
    with pytest.raises(OSError, match="torn"):
        run(weights.bring(new))
    run(weights.bring_back(before, old))
    assert llm.method_calls == [replace(new), replace(old), *AWAKE_AGAIN]
    assert weights.now == before
