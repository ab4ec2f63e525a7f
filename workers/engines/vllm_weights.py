"""Keep track of vLLM's weights: whole weights or a base with an adapter, in GPU memory or asleep.

All methods run on the engine's event loop. The caller makes sure that nothing is sampled meanwhile.

Names used from vLLM 0.32: `AsyncLLM` with `collective_rpc`, `reset_prefix_cache`,
`resume_generation`, `sleep(level=)`, `wake_up(tags=)` with the tags "weights" and "kv_cache",
`add_lora`, `remove_lora`; `LoRARequest`.
"""

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from vllm.lora.request import LoRARequest
from vllm.v1.engine.async_llm import AsyncLLM

from apps.policies.manifest import read_manifest
from workers import adapters
from workers.engines.vllm_options import VllmOptions

WEIGHTS = "weights"
CACHE = "kv_cache"


@dataclass(frozen=True)
class WeightsInMemory:
    """Weights in GPU memory.

    `whole`: fingerprint of the whole weights, None if they cannot be relied on. `adapter`: the
    adapter to send requests with, None if whole weights are served.
    """

    whole: str | None
    adapter: LoRARequest | None = None


class HeldWeights:
    """Weights of one vLLM; read `now` before a change, to be able to restore them."""

    def __init__(self, llm: AsyncLLM, options: VllmOptions, whole: str) -> None:
        """Keep track of an engine's weights.

        `whole` is the fingerprint of the weights that vLLM was built with.
        """
        self.llm = llm
        self.options = options
        self.now = WeightsInMemory(whole)
        self._asleep: set[str] = set()  # parts of the memory that are released now
        self._numbers = count(1)

    @property
    def is_asleep(self) -> bool:
        """Tell whether any part of the GPU memory is released."""
        return bool(self._asleep)

    async def sleep(self) -> None:
        """Release the GPU memory.

        At level 1 the weights are moved to CPU memory, at level 2 they are dropped.
        """
        await self.llm.sleep(level=self.options.sleep_level)
        self._asleep = {WEIGHTS, CACHE}
        if self.options.sleep_level > 1:
            self.now = WeightsInMemory(None)

    async def bring(self, folder: Path) -> None:
        """Load this version's weights, awake, and clear what other weights left in the cache.

        Memory for weights is taken first and that of the cache last, so that what loading needs for
        a moment fits beside the trainer.
        """
        await self._take_memory(WEIGHTS)
        if self._stands_beside_base(folder):
            await self._bring_adapter(folder)
        else:
            await self._bring_whole(folder)
        await self._wake_fully()

    async def bring_back(self, before: WeightsInMemory, folder: Path) -> None:
        """Restore the weights held `before`.

        They are read from their folder only if they were dropped.
        """
        await self._take_memory(WEIGHTS)
        if before.whole is None or self.now.whole != before.whole:
            await self.bring(folder)
            return
        refused = self.now
        self.now = before
        await self.forget(refused)
        await self._wake_fully()

    async def forget(self, weights: WeightsInMemory) -> None:
        """Remove an adapter, unless it is the one in service."""
        if weights.adapter is None or weights.adapter == self.now.adapter:
            return
        await self.llm.remove_lora(weights.adapter.lora_int_id)

    async def _wake_fully(self) -> None:
        await self._take_memory(CACHE)
        # Otherwise replies would be sampled from keys and values that other weights computed.
        await self.llm.reset_prefix_cache(reset_running_requests=True)
        await self.llm.resume_generation()

    async def _take_memory(self, part: str) -> None:
        if part in self._asleep:
            await self.llm.wake_up(tags=[part])
            self._asleep.discard(part)

    def _stands_beside_base(self, folder: Path) -> bool:
        return (
            self.options.adapter_rank is not None and adapters.find_adapter_base(folder) is not None
        )

    async def _bring_whole(self, folder: Path) -> None:
        with adapters.merge_whole_weights(folder) as full:
            self.now = WeightsInMemory(None)  # vLLM drops its adapters with their base
            await self.llm.collective_rpc("replace_weights", args=(str(full),))
        self.now = WeightsInMemory(_fingerprint(folder))

    async def _bring_adapter(self, folder: Path) -> None:
        base = adapters.find_adapter_base(folder)
        assert base is not None
        if self.now.whole != _fingerprint(base):
            await self._bring_whole(base)
        number = next(self._numbers)
        # The name has a number too: vLLM treats adapters of one name as the same adapter.
        adapter = LoRARequest(f"{number}-{_fingerprint(folder)}", number, str(folder))
        if not await self.llm.add_lora(adapter):
            raise ValueError(f"vLLM did not take the adapter in {folder.name}")
        self.now = WeightsInMemory(self.now.whole, adapter)


def _fingerprint(folder: Path) -> str:
    return read_manifest(folder).fingerprint
