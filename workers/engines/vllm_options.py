"""Options of an engine that only vLLM offers; this module imports nothing heavy."""

from dataclasses import dataclass

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM 0.32 keeps room for


class UnsupportedOption(ValueError):
    """An option with which this machine cannot serve a policy; names the configuration field."""


@dataclass(frozen=True)
class VllmOptions:
    """Options of vLLM.

    - `memory_share`: share of a GPU for weights and cache together.
    - `sleep_level`: what `VllmEngine.sleep` does; 0 if it is never called.
    - `graphs`: whether a GPU replays recorded CUDA graphs.
    - `max_text_tokens`: tokens of prompt and answer to keep room for; None for the policy's
      context.
    - `adapter_rank`: rank of the adapters that are served beside their base; None if they are
      merged.
    - `tensor_parallel`: GPUs of one copy of the policy.
    - `data_parallel`: number of copies.
    - `executor`: what starts vLLM's processes: "mp", "ray", or "auto" for vLLM's own choice.
    """

    memory_share: float = 0.85
    sleep_level: int = 0
    graphs: bool = True
    prefix_caching: bool = True
    max_text_tokens: int | None = None
    adapter_rank: int | None = None
    tensor_parallel: int = 1
    data_parallel: int = 1
    executor: str = "auto"

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that all copies take together."""
        return self.tensor_parallel * self.data_parallel

    @property
    def needs_vllm(self) -> str:
        """Return the field that no other engine can satisfy on a GPU; "" if there is none."""
        if self.sleep_level:
            return f"sleep_level {self.sleep_level}"
        return f"{self.gpus} GPUs" if self.gpus > 1 else ""

    def require(self, visible_gpus: int, has_ray: bool) -> None:
        """Raise UnsupportedOption if a machine with so many GPUs cannot serve the options."""
        if self.sleep_level and not visible_gpus:
            raise UnsupportedOption(
                f"vllm.sleep_level: {self.sleep_level} frees the memory of a CUDA GPU, and this "
                "explorer sees none; set it to 0"
            )
        if self.executor == "ray":
            if not has_ray:
                raise UnsupportedOption(
                    "vllm.distributed_executor_backend: ray is not installed here; "
                    "pip install ray on every machine of the cluster, or take mp"
                )
            return  # a Ray cluster may have GPUs that this machine lacks
        if visible_gpus and self.gpus > visible_gpus:
            raise UnsupportedOption(
                f"vllm.tensor_parallel_size: {self.tensor_parallel} GPUs for each of "
                f"{self.data_parallel} copies are {self.gpus}, and this explorer sees "
                f"{visible_gpus} (CUDA_VISIBLE_DEVICES, RFTWEB_EXPLORER_GPU)"
            )


DEFAULTS = VllmOptions()


def rank_with_room(rank: int) -> int:
    """Return the smallest rank that vLLM keeps room for and that is at least `rank`."""
    return next(room for room in RANKS if room >= rank)
