"""Settings of vLLM that have no meaning in a configuration, by field with what to change."""

from collections.abc import Iterator

from apps.runs.config import RunConfig
from apps.runs.vllm import MAX_RANK, Vllm


def refusals_of_vllm(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield the settings that have no meaning in this plan, by dotted field."""
    chosen = plan.vllm
    if plan.engine == "transformers" and chosen != Vllm():
        yield (
            "vllm",
            (
                "has no effect because `engine` is transformers: set engine to auto or vllm, or "
                "remove this"
            ),
        )
        return
    yield from _sleep(plan)
    yield from _adapters(plan)
    yield from _lengths(plan)


def _sleep(plan: RunConfig) -> Iterator[tuple[str, str]]:
    level = plan.vllm.sleep_level
    if not level or not plan.samples:
        return
    if plan.serve:
        yield (
            "vllm.sleep_level",
            (
                f"is {level}, but callers of `serve` may come while the trainer computes: set it "
                "to 0 and share the GPU by gpu_memory_utilization"
            ),
        )
    elif plan.max_staleness and not plan.evaluation:
        yield (
            "vllm.sleep_level",
            (
                f"is {level}, but with max_staleness {plan.max_staleness} the engine samples while"
                " the trainer computes: set max_staleness to 0, or sleep_level to 0 and share the"
                " GPU by gpu_memory_utilization"
            ),
        )
    elif level == 2 and plan.vllm.lora == "adapter":
        yield (
            "vllm.sleep_level",
            (
                "is 2, which drops the base model that adapters need: set it to 1, or `vllm.lora` "
                "to merge"
            ),
        )


def _adapters(plan: RunConfig) -> Iterator[tuple[str, str]]:
    if plan.vllm.lora != "adapter":
        return
    if plan.lora is None:
        yield (
            "vllm.lora",
            "is adapter, but this run trains no adapters: set it to merge, or add `lora`",
        )
    elif plan.lora.rank > MAX_RANK:
        yield (
            "vllm.lora",
            (
                f"is adapter, but vLLM supports ranks only up to {MAX_RANK}, and lora.rank is "
                f"{plan.lora.rank}: lower it, or set this to merge"
            ),
        )


def _lengths(plan: RunConfig) -> Iterator[tuple[str, str]]:
    needed = plan.max_text_tokens()
    max_length = plan.vllm.max_model_len
    if max_length is None:
        return
    if needed is not None and max_length < needed:
        yield (
            "vllm.max_model_len",
            (
                f"is {max_length:,}, less than sampling.max_prompt_tokens and sampling.max_tokens "
                f"together, {needed:,}: raise it, or leave it empty"
            ),
        )
    elif max_length <= plan.sampling.max_tokens:
        yield (
            "vllm.max_model_len",
            (
                f"is {max_length:,}, which leaves no room for a prompt beside sampling.max_tokens "
                f"{plan.sampling.max_tokens:,}: raise it"
            ),
        )
