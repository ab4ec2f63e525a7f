"""Settings of vLLM for a run's policy, under vLLM's own argument names where it has them."""

from typing import Annotated, Literal

from pydantic import Field

from apps.runs.algorithms.section import Section

MAX_RANK = 512  # of an adapter that vLLM serves beside its base
Devices = Annotated[int, Field(ge=1, le=64)]


class Vllm(Section):
    """Settings for vLLM; docs/deploy.md, "One GPU", explains the choices."""

    gpu_memory_utilization: float | None = Field(
        None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description=(
            "Share of GPU memory for the engine's weights and cache. If empty, the installation's "
            "RFTWEB_GPU_MEMORY_PERCENT."
        ),
    )
    sleep_level: int = Field(
        0,
        ge=0,
        le=2,
        description=(
            "What the engine does with GPU memory while the trainer computes. 0 keeps it. 1 moves "
            "the weights to CPU memory. 2 drops the weights and reads them again. 1 and 2 require "
            "max_staleness 0."
        ),
    )
    enforce_eager: bool = Field(
        False, description="Runs without CUDA graphs: starts sooner, but samples more slowly."
    )
    enable_prefix_caching: bool = Field(
        True,
        description=(
            "Computes a shared start of prompts once. Each change of weights empties this cache."
        ),
    )
    max_model_len: int | None = Field(
        None,
        ge=8,
        le=10_000_000,
        description=(
            "Maximum length of prompt and reply together that the engine has room for. If empty, "
            "sampling.max_prompt_tokens plus sampling.max_tokens, or the policy's context if the "
            "former is empty."
        ),
    )
    lora: Literal["merge", "adapter"] = Field(
        "merge",
        description=(
            "How versions of a `lora` run are served. merge: merged into the base model, which is "
            "loaded again for each version. adapter: as adapters beside a base model that stays "
            "loaded."
        ),
    )
    tensor_parallel_size: Devices = Field(
        1, description="Number of GPUs for one copy of the policy."
    )
    data_parallel_size: Devices = Field(
        1, description="Number of copies of the policy, each on its own GPUs."
    )
    distributed_executor_backend: Literal["auto", "mp", "ray"] = Field(
        "auto",
        description=(
            "How vLLM starts its processes. mp: on this machine. ray: on a Ray cluster. auto: vLLM "
            "decides."
        ),
    )

    def for_evaluation(self) -> "Vllm":
        """Return how the same GPU serves whole weights to an evaluation, which asks every task."""
        return self.model_copy(update={"lora": "merge", "max_model_len": None})
