"""What a process and its children take of the machine, read cheaply: a few files of /proc, and NVML where there is a GPU."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

PAGE_BYTES, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
MOST_CHILDREN = 200
UTIME, STIME, RSS = 11, 12, 21  # fields of /proc/<pid>/stat behind the name, proc_pid_stat(5)


@dataclass
class Sampler:
    """`sample` gives the share of processors since the last sample."""

    ticks: int = 0
    at: float = field(default_factory=time.monotonic)

    def sample(self) -> dict[str, Any]:
        """rss_bytes and cpu_share (1.0: one whole processor), children included; gpu_* of its device where it has one."""
        ticks = pages = 0
        for pid in _family(os.getpid()):
            stat = _stat(pid)
            if stat:
                ticks += int(stat[UTIME]) + int(stat[STIME])
                pages += int(stat[RSS])
        now = time.monotonic()
        share = max(0, ticks - self.ticks) / TICKS / max(now - self.at, 1e-3) if self.ticks else None
        self.ticks, self.at = ticks, now
        told = {"rss_bytes": pages * PAGE_BYTES, **gpu()}
        return told if share is None else {**told, "cpu_share": round(share, 3)}


def _stat(pid: int) -> list[str]:
    """The fields behind the name; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for one in found:
        try:
            threads = os.listdir(f"/proc/{one}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{one}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
            except OSError:
                continue
        if len(found) > MOST_CHILDREN:
            break
    return found[:MOST_CHILDREN]


def gpu() -> dict[str, Any]:
    """Memory of the whole device and its utilisation; nothing where torch was not loaded, or finds no GPU.

    Never begins to use the GPU for it: a process that did would take half a gigabyte of its memory.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    nvml = _nvml()
    return readable(
        name=lambda: _name(torch, nvml),
        memory=lambda: _memory(torch, nvml),
        utilisation=lambda: {"gpu_share": nvml.nvmlDeviceGetUtilizationRates(_handle(nvml, torch)).gpu / 100} if nvml else {},
    )


def readable(**readings: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What can be read; `gpu_unread` says of the rest why not. What drivers raise has no end of names, and stops no work."""
    told: dict[str, Any] = {}
    unread = []
    for name, read in readings.items():
        try:
            told |= read()
        except Exception as error:
            unread.append(f"{name}: {str(error).strip() or type(error).__name__}"[:200])
    return {**told, "gpu_unread": "; ".join(unread)} if unread else told


def _memory(torch: Any, nvml: Any) -> dict[str, Any]:
    """By the driver, or by torch where this process has memory of the device already."""
    if nvml is not None:
        memory = nvml.nvmlDeviceGetMemoryInfo(_handle(nvml, torch))
        return {"gpu_bytes": memory.used, "gpu_total_bytes": memory.total}
    if not torch.cuda.memory_reserved(0):
        return {}
    free, total = torch.cuda.mem_get_info(0)
    return {"gpu_bytes": total - free, "gpu_total_bytes": total}


def _name(torch: Any, nvml: Any) -> dict[str, Any]:
    if torch.cuda.is_initialized():
        return {"gpu": torch.cuda.get_device_name(0)}
    if nvml is None:
        return {}
    name = nvml.nvmlDeviceGetName(_handle(nvml, torch))  # bytes in its older releases
    return {"gpu": name.decode() if isinstance(name, bytes) else name}


def _handle(nvml: Any, torch: Any) -> Any:
    """The driver's handle of the first device that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    if visible.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(visible)
    if torch.cuda.is_initialized():
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
    return nvml.nvmlDeviceGetHandleByIndex(int(visible or 0))


@cache
def _nvml() -> Any:
    """NVIDIA's management library, None where it is not installed or finds no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
