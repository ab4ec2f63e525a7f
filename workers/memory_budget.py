"""Memory of loaded models: how much a worker may hold, whether one more fits, and its release.

Each worker may hold TRAINERS_PER_WORKER or ENGINES_PER_WORKER models whatever they take. A further
model is loaded only while all together stay within a bound and twice the memory that it needs is
free: the rest is for activations and caches. Torch is asked only where it is already imported.
"""

import ctypes
import gc
import sys
from pathlib import Path

from django.conf import settings

MIB = 1 << 20
SHARE = 0.25  # of the machine's memory, or of the GPU's, where no bound is set
CGROUP = Path("/sys/fs/cgroup")


def bound() -> float:
    """Return bytes that all resident models of this process may take together."""
    if settings.RESIDENT_MEMORY_MB is not None:
        return settings.RESIDENT_MEMORY_MB * MIB
    return SHARE * _memory()[1]


def fits(resident: float, more: float) -> bool:
    """Tell whether a model of `more` bytes may be loaded beside `resident` bytes of others."""
    return resident + more <= bound() and 2 * more <= _memory()[0]


def release_unused() -> None:
    """Give the memory of unloaded models back to the GPU and the system.

    TRL's trainer refers to itself, so only a garbage collection frees its model. Torch and the C
    library keep freed memory for later, which another process could use now.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)


def _memory() -> tuple[float, float]:
    """Free and total bytes of the GPU where there is one, else of the machine or container."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return free, total
    return _ram()


def _ram() -> tuple[float, float]:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    memory = {words[0]: float(words[1]) * 1024 for words in lines}
    free = memory["MemAvailable:"]
    total = memory["MemTotal:"]
    limit = _number(CGROUP / "memory.max")
    used = _number(CGROUP / "memory.current")
    if limit is None or used is None or limit >= total:
        return free, total
    return min(free, limit - used), limit


def _number(path: Path) -> float | None:
    """Read a number from a file; None if the file is missing, or says "max"."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
