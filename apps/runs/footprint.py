"""What a process and its children take of the machine, read cheaply: a few files of /proc, and NVML where there is a GPU."""

import os
import sys
import time
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
    """Memory of the whole device and its utilisation; nothing where torch was not loaded, or drives no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    told: dict[str, Any] = {"gpu": torch.cuda.get_device_name()}
    if torch.cuda.is_initialized():  # asking would take half a gigabyte of it otherwise
        free, total = torch.cuda.mem_get_info()
        told |= {"gpu_bytes": total - free, "gpu_total_bytes": total}
    nvml = _nvml()
    if nvml is not None:
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        told |= {"gpu_bytes": memory.used, "gpu_total_bytes": memory.total}
        told["gpu_share"] = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    return told


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
