"""State of vLLM's weights: whole or a base with an adapter, in GPU memory or asleep.

Lives on the engine's event loop. The caller sees to it that nothing runs meanwhile.

Names relied on in vLLM 0.32: `AsyncLLM` with `collective_rpc`, `reset_prefix_cache`,
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
    """Weights in memory; `whole` is their fingerprint, None if they cannot be relied on.

    `adapter`: the one that requests are to be sent with, None where whole weights are served.
    """

    whole: str | None
    adapter: LoRARequest | None = None


class HeldWeights:
    """Weights of one vLLM; read `now` before a change to be able to go back."""

    def __init__(self, llm: AsyncLLM, options: VllmOptions, whole: str) -> None:
        """Keep track of an engine's weights.

        `whole` is the fingerprint of those that vLLM was built with.
        """
        self.llm = llm
        self.options = options
        self.now = WeightsInMemory(whole)
        self._asleep: set[str] = set()  # parts of the memory that vLLM does not have now
        self._numbers = count(1)

    @property
    def is_asleep(self) -> bool:
        """Tell whether any part of the GPU's memory was given back."""
        return bool(self._asleep)

    async def sleep(self) -> None:
        """Free the GPU's memory.

        At level 1 weights go into the machine's memory, at level 2 they are dropped.
        """
        await self.llm.sleep(level=self.options.sleep_level)
        self._asleep = {WEIGHTS, CACHE}
        if self.options.sleep_level > 1:
            self.now = WeightsInMemory(None)

    async def bring(self, folder: Path) -> None:
        """Hold this version's weights, awake, with nothing cached that others computed.

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
        """Hold again what was held before; read from its folder only where it is not there any
        more.
        """
        await self._take_memory(WEIGHTS)
        if before.whole is None or self.now.whole != before.whole:
            await self.bring(folder)
            return
        refused = self.now
        self.now = before
        await self.forget(refused)
        await self._wake_fully()

    async def forget(self, other: WeightsInMemory) -> None:
        """Let go of another adapter than the one that is served."""
        if other.adapter is None or other.adapter == self.now.adapter:
            return
        await self.llm.remove_lora(other.adapter.lora_int_id)

    async def _wake_fully(self) -> None:
        await self._take_memory(CACHE)
        # Keys and values that other weights computed would go into answers as if these had.
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
            self.now = WeightsInMemory(None)  # vLLM forgets its adapters with their base
            await self.llm.collective_rpc("replace_weights", args=(str(full),))
        self.now = WeightsInMemory(_fingerprint(folder))

    async def _bring_adapter(self, folder: Path) -> None:
        base = adapters.find_adapter_base(folder)
        if self.now.whole != _fingerprint(base):
            await self._bring_whole(base)
        number = next(self._numbers)
        # Named by number too: vLLM takes adapters of one name for the same.
        adapter = LoRARequest(f"{number}-{_fingerprint(folder)}", number, str(folder))
        if not await self.llm.add_lora(adapter):
            raise ValueError(f"vLLM did not take the adapter in {folder.name}")
        self.now = WeightsInMemory(self.now.whole, adapter)


def _fingerprint(folder: Path) -> str:
    return read_manifest(folder).fingerprint
