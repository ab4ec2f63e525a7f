"""Resource usage of a process and its children, read cheaply from /proc, and from NVML for GPUs."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MAX_CHILDREN = 200
# The limit of the container by control groups, version 2 and 1.
MEMORY_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
UTIME = 11
STIME = 12
RSS = 21  # fields of /proc/<pid>/stat behind the name, proc_pid_stat(5)


@dataclass
class Sampler:
    """Sampler of resource usage; the processor share is the one since the last sample."""

    ticks: int = 0
    at: float = field(default_factory=time.monotonic)

    def sample(self) -> dict[str, Any]:
        """Return rss_bytes and cpu_share (1.0: one whole processor), children included.

        machine_bytes is the memory that all processes here may use; gpu_* are those of its device
        where it has one.
        """
        ticks = pages = 0
        for pid in _family(os.getpid()):
            stat = _stat(pid)
            if stat:
                ticks += int(stat[UTIME]) + int(stat[STIME])
                pages += int(stat[RSS])
        now = time.monotonic()
        share = (
            max(0, ticks - self.ticks) / TICKS / max(now - self.at, 1e-3) if self.ticks else None
        )
        self.ticks = ticks
        self.at = now
        usage = {"rss_bytes": pages * PAGE_BYTES, **machine_memory(), **gpu()}
        return usage if share is None else {**usage, "cpu_share": round(share, 3)}


@cache
def machine_memory() -> dict[str, int]:
    """Return the memory of the machine, or of the container if that has less, as machine_bytes.

    Empty where neither can be read.
    """
    limits = [_first_number(path) for path in MEMORY_LIMITS]
    sizes = [limit for limit in (_installed_memory(), *limits) if limit]
    return {"machine_bytes": min(sizes)} if sizes else {}


def _installed_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    except (ValueError, OSError):
        return 0


def _first_number(path: str) -> int:
    """Return the number in a file, 0 if there is none, as for a group without a limit."""
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def _stat(pid: int) -> list[str]:
    """Return the fields behind the name; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _family(pid: int) -> list[int]:
    """Return the process and its descendants."""
    pids = [pid]
    for parent in pids:
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    pids += map(int, file.read().split())
            except OSError:
                continue
        if len(pids) > MAX_CHILDREN:
            break
    return pids[:MAX_CHILDREN]


def gpu() -> dict[str, Any]:
    """Return memory of the whole device and its utilisation.

    Nothing where torch was not loaded, or finds no GPU.

    Never begins to use the GPU for it: a process that did would take half a gigabyte of its memory.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    nvml = _nvml()
    return read_available(
        name=lambda: _name(torch, nvml),
        memory=lambda: _memory(torch, nvml),
        utilisation=lambda: (
            {"gpu_share": nvml.nvmlDeviceGetUtilizationRates(_handle(nvml, torch)).gpu / 100}
            if nvml
            else {}
        ),
    )


def read_available(**readings: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return all readings that succeed; `gpu_unread` says why the others failed.

    Drivers raise many kinds of errors, and none of them may stop the work.
    """
    available: dict[str, Any] = {}
    unread = []
    for name, read in readings.items():
        try:
            available |= read()
        except Exception as error:
            unread.append(f"{name}: {str(error).strip() or type(error).__name__}"[:200])
    return {**available, "gpu_unread": "; ".join(unread)} if unread else available


def _memory(torch: Any, nvml: Any) -> dict[str, Any]:
    """Return GPU memory as the driver reports it.

    Without NVML, torch is asked, if this process uses the device already.
    """
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
    """Return the driver's handle of the first device that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    if visible.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(visible)
    if torch.cuda.is_initialized():
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
    return nvml.nvmlDeviceGetHandleByIndex(int(visible or 0))


@cache
def _nvml() -> Any:
    """Return NVIDIA's management library, None where it is not installed or finds no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
