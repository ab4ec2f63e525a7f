"""Environment variables and paths that vLLM needs before it is imported."""

import os
import sys
from pathlib import Path

ENTRY_POINTS = str(Path(__file__).with_name("entry_points"))

ALWAYS = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",  # it logs about sixty lines at every start
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork would copy held locks
}
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; otherwise it takes a share of all memory
    # Of two cores, vLLM's own binding reserves one and puts both threads on the other, which is 5
    # times slower.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Otherwise the first request compiles kernels, which takes 13 s and needs a C++ compiler.
    "TORCHDYNAMO_DISABLE": "1",
}


def prepare_environment(on_gpu: bool) -> None:
    """Set the variables that are not set yet; an operator's values are never changed.

    torch reads some of them when it is imported. vLLM's own processes import torch again, and only
    they need these values.
    """
    for name, value in (ALWAYS if on_gpu else ALWAYS | ON_CPU).items():
        os.environ.setdefault(name, value)
    if ENTRY_POINTS not in sys.path:
        sys.path.append(ENTRY_POINTS)
