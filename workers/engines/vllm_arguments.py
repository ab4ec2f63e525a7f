"""How vLLM is told to serve a policy, and what a policy's weight files hold.

Names relied on in vLLM 0.32: `AsyncEngineArgs` with the arguments below.
"""

import math
from pathlib import Path

import torch
from safetensors import safe_open
from vllm.engine.arg_utils import AsyncEngineArgs

from workers.precision import choose

ROWS = 256
MOST_PICTURES = 64  # in one text

Shapes = dict[str, tuple[int, ...]]


def engine_arguments(
    folder: Path, precision: str, on_gpu: bool, memory_share: float, sees: bool = False
) -> AsyncEngineArgs:
    """vLLM for token ids in and out, one version of the weights in safetensors, no code from the folder.

    `memory_share`: of the GPU's memory, for weights and cache; less where a trainer lives on the same GPU. `sees`: whether
    requests show pictures, always as pixels of ours: nothing is fetched. Its processor of pictures needs the tokenizer then.
    """
    return AsyncEngineArgs(
        model=str(folder),
        load_format="safetensors",
        use_tqdm_on_load=False,
        trust_remote_code=False,
        skip_tokenizer_init=not sees,
        limit_mm_per_prompt={"image": MOST_PICTURES} if sees else {},
        generation_config="vllm",  # or the folder's own file would change how we sample
        dtype=precision,
        max_num_seqs=ROWS,
        # Between two parts of a prompt vLLM rewinds a request's generator, which one of a CPU cannot do: it would end vLLM.
        enable_chunked_prefill=on_gpu,
        logprobs_mode="processed_logprobs",  # after temperature; vLLM's default is before
        enforce_eager=not on_gpu,
        gpu_memory_utilization=memory_share,
        worker_extension_cls="workers.engines.vllm_worker.WeightReplacement",
        disable_log_stats=True,
        enable_log_requests=False,
    )


def precision_of(shapes: Shapes, on_gpu: bool, wanted: str = "auto") -> str:
    """Return the precision in which vLLM computes. Raises UnsupportedPrecision."""
    parameters = sum(map(math.prod, shapes.values()))
    device = torch.device("cuda" if on_gpu else "cpu")
    return choose("engine", wanted, parameters, device).name


def shapes_of(folder: Path) -> Shapes:
    """Names and shapes of a folder's tensors, from the files' heads. Raises what reading a damaged head raises."""
    shapes: Shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as tensors:
            names = tensors.keys()
            shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
    return shapes
