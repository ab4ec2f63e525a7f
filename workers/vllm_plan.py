"""Settings of a vLLM engine that follow from a run's configuration and this installation."""

from django.conf import settings

from apps.runs.config import RunConfig
from workers.engines.vllm_options import VllmOptions


def build_vllm_options(plan: RunConfig, max_text_tokens: int | None = None) -> VllmOptions:
    """Return vLLM's options for the run.

    `max_text_tokens`: tokens that there must be room for, None for the policy's context.
    """
    chosen = plan.vllm
    adapters = plan.lora if chosen.lora == "adapter" else None
    return VllmOptions(
        memory_share=chosen.gpu_memory_utilization or installed_share(),
        sleep_level=chosen.sleep_level,
        graphs=not chosen.enforce_eager,
        prefix_caching=chosen.enable_prefix_caching,
        max_text_tokens=max_text_tokens,
        adapter_rank=adapters.rank if adapters is not None else None,
        tensor_parallel=chosen.tensor_parallel_size,
        data_parallel=chosen.data_parallel_size,
        executor=chosen.distributed_executor_backend,
    )


def installed_share() -> float:
    """Return the default share of a GPU's memory that an engine takes."""
    return settings.GPU_MEMORY_PERCENT / 100
