"""Environment variables and paths that vLLM needs before it is imported."""

import os
import sys
from pathlib import Path

ENTRY_POINTS = str(Path(__file__).with_name("entry_points"))

ALWAYS = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",  # it says some sixty things at every start
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork would copy our threads' locks, held or not
}
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; otherwise it takes a share of all memory
    # Its own binding reserves a core of two and then puts both threads on the other: 5 times
    # slower.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # or the first request compiles kernels: 13 s, and needs a C++ compiler
    "TORCHDYNAMO_DISABLE": "1",
}


def prepare_environment(on_gpu: bool) -> None:
    """Set what the caller's environment leaves open; never changes what an operator has set.

    Some of it is read when torch is imported; vLLM's own processes, which import it anew, are those
    that matter.
    """
    for name, value in (ALWAYS if on_gpu else ALWAYS | ON_CPU).items():
        os.environ.setdefault(name, value)
    if ENTRY_POINTS not in sys.path:
        sys.path.append(ENTRY_POINTS)
