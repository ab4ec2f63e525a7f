"""Build the arguments with which vLLM serves a policy, and read the policy's weight files.

Names used from vLLM 0.32: `AsyncEngineArgs` with the arguments below.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.engine.arg_utils import AsyncEngineArgs

from workers.engines.vllm_options import VllmOptions, rank_with_room
from workers.precision import choose

ROWS = 256
MAX_PICTURES = 64  # in one text

Shapes = dict[str, tuple[int, ...]]


def engine_arguments(
    folder: Path, precision: str, on_gpu: bool, options: VllmOptions, sees: bool = False
) -> AsyncEngineArgs:
    """Return arguments for token ids in and out, from safetensors, without code of the folder.

    `sees`: whether requests show pictures. Pictures are always given as pixels, so vLLM fetches
    nothing; its image processor then needs the tokenizer.
    """
    return AsyncEngineArgs(
        model=str(folder),
        load_format="safetensors",
        use_tqdm_on_load=False,
        trust_remote_code=False,
        skip_tokenizer_init=not sees,
        limit_mm_per_prompt={"image": MAX_PICTURES} if sees else {},
        generation_config="vllm",  # the folder's generation settings would change how we sample
        dtype=precision,  # type: ignore[arg-type]  # vLLM checks the name itself
        max_num_seqs=ROWS,
        # None, which vLLM's annotation leaves out, is its own default: the policy's whole context.
        max_model_len=context_room(folder, options.max_text_tokens),  # type: ignore[arg-type]
        # Between two parts of a prompt vLLM rewinds a request's generator. A generator on a CPU
        # cannot be rewound, and vLLM would end.
        enable_chunked_prefill=on_gpu,
        enable_prefix_caching=options.prefix_caching,
        logprobs_mode="processed_logprobs",  # after temperature; vLLM's default is before
        enforce_eager=not (on_gpu and options.graphs),
        gpu_memory_utilization=options.memory_share,
        enable_sleep_mode=on_gpu and options.sleep_level > 0,  # a CPU has no memory to give back
        worker_extension_cls="workers.engines.vllm_worker.WeightReplacement",
        disable_log_stats=True,
        enable_log_requests=False,
        **adapter_arguments(options),
        **parallel_arguments(options),
    )


def adapter_arguments(options: VllmOptions) -> dict[str, Any]:
    """Return arguments for one adapter beside its base, with room to load the next one."""
    if options.adapter_rank is None:
        return {}
    return {
        "enable_lora": True,
        "max_loras": 1,
        "max_cpu_loras": 2,
        "max_lora_rank": rank_with_room(options.adapter_rank),
    }


def parallel_arguments(options: VllmOptions) -> dict[str, Any]:
    """Return arguments that spread the policy over GPUs; empty for a single GPU."""
    chosen: dict[str, Any] = {}
    if options.gpus > 1:
        chosen["tensor_parallel_size"] = options.tensor_parallel
        chosen["data_parallel_size"] = options.data_parallel
    if options.executor != "auto":
        chosen["distributed_executor_backend"] = options.executor
    if options.executor == "ray" and options.data_parallel > 1:
        chosen["data_parallel_backend"] = "ray"
    return chosen


def context_room(folder: Path, max_text_tokens: int | None) -> int | None:
    """Return the number of tokens to keep room for: `max_text_tokens`, or the whole context.

    vLLM refuses more tokens than the context has.
    """
    if max_text_tokens is None:
        return None
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    context = {**config, **config.get("text_config", {})}.get("max_position_embeddings")
    return max_text_tokens if context is None else min(max_text_tokens, context)


def choose_vllm_precision(shapes: Shapes, on_gpu: bool, wanted_precision: str = "auto") -> str:
    """Return the precision in which vLLM computes. Raises UnsupportedPrecision."""
    parameters = sum(map(math.prod, shapes.values()))
    device = torch.device("cuda" if on_gpu else "cpu")
    return choose("engine", wanted_precision, parameters, device).name


def read_tensor_shapes(folder: Path) -> Shapes:
    """Return names and shapes of a folder's tensors, read from the headers of its files.

    Raises the error of reading a damaged header.
    """
    shapes: Shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as tensors:
            names = tensors.keys()
            shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
    return shapes
