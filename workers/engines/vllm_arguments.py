"""How vLLM is told to serve a policy, and what a policy's weight files hold.

Names relied on in vLLM 0.32: `AsyncEngineArgs` with the arguments below.
"""

import math
from pathlib import Path

from safetensors import safe_open
from vllm.engine.arg_utils import AsyncEngineArgs

ROWS = 256
MOST_PICTURES = 64  # in one text
SMALL = 100_000_000  # parameters; on a CPU, fp32 is the faster below, bf16 above

Shapes = dict[str, tuple[int, ...]]


def engine_arguments(
    folder: Path, shapes: Shapes, on_gpu: bool, memory_share: float, sees: bool = False
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
        dtype=precision_of(shapes, on_gpu),
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


def precision_of(shapes: Shapes, on_gpu: bool) -> str:
    """Return the precision in which vLLM computes: float32 for small models on a CPU."""
    is_small = sum(map(math.prod, shapes.values())) < SMALL
    return "float32" if is_small and not on_gpu else "bfloat16"


def shapes_of(folder: Path) -> Shapes:
    """Names and shapes of a folder's tensors, from the files' heads. Raises what reading a damaged head raises."""
    shapes: Shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as tensors:
            names = tensors.keys()
            shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
    return shapes
