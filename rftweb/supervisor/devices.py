"""Which GPUs each explorer and each trainer sees: CUDA_VISIBLE_DEVICES of its process, set
before it starts.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from rftweb.supervisor.program import CannotStart

LISTED = re.compile(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)")
Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Pool:
    """GPUs that may be dealt out, by index or UUID; `source` says who names them.

    `is_known`: whether others are refused; not where nobody could list them.
    """

    gpus: tuple[str, ...]
    source: str
    is_known: bool
    uuids: tuple[str, ...] = ()

    @classmethod
    def here(cls) -> "Pool":
        """Return the GPUs of CUDA_VISIBLE_DEVICES if set, else those that nvidia-smi lists."""
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        if chosen is not None:
            gpus = tuple(name.strip() for name in chosen.split(",") if name.strip())
            return cls(gpus, "CUDA_VISIBLE_DEVICES", is_known=True)
        listed = _listed()
        indices = tuple(index for index, _ in listed)
        uuids = tuple(uuid for _, uuid in listed)
        return cls(indices, "nvidia-smi", bool(listed), uuids)

    def require(self, variable: str, group: Sequence[str]) -> None:
        """Raise CannotStart for a GPU that is not in the pool."""
        for name in group if self.is_known else ():
            if name not in (*self.gpus, *self.uuids) and not name.startswith("MIG-"):
                available = ", ".join(self.gpus) or "none"
                raise CannotStart(
                    f"{variable} names GPU {name}, and {self.source} has {available}: name one of "
                    "those"
                )


def assign_devices(
    workers: Sequence[tuple[str, str]], chosen: dict[str, Groups], pool: Pool
) -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES by the worker's name; it is unchanged for workers not in it.

    `workers`: (role, name). `chosen`: by role, the GPUs of its first worker, of its second and so
    on, then from the first again. Workers of other roles get one each of the remaining GPUs of the
    pool, in turn, if the pool has more than one.
    """
    devices: dict[str, str] = {}
    for role, groups in chosen.items():
        for group in groups:
            pool.require(f"RFTWEB_{role.upper()}_GPU", group)
        names = [name for worker, name in workers if worker == role and groups]
        for number, name in enumerate(names):
            devices[name] = ",".join(groups[number % len(groups)])
    assigned = {gpu for group in devices.values() for gpu in group.split(",")}
    free_gpus = [gpu for gpu in pool.gpus if gpu not in assigned] or list(pool.gpus)
    waiting = [name for _, name in workers if name not in devices]
    if len(pool.gpus) > 1:
        devices |= {name: free_gpus[number % len(free_gpus)] for number, name in enumerate(waiting)}
    return devices


def _listed() -> list[tuple[str, str]]:
    """Return index and UUID of each GPU that nvidia-smi lists; none without nvidia-smi."""
    try:
        process = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=20
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return []
    if process.returncode != 0:
        return []
    matches = map(LISTED.match, process.stdout.splitlines())
    return [(match[1], match[2]) for match in matches if match]
