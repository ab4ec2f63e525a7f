"""What a guest may take of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Of one guest. Its end comes within a second of the limit that it passes.

    `cpu_s`: processor time, rounded up to whole seconds by the kernel; `wall_s`: what ends those that sleep; `memory_mb`: of
    all of it, in MiB; `reserved_mb`: address space that an interpreter sets aside beside that and does not use; `threads` beside
    its first; `processes`: other than its own (a compiler starts some), 0 means that none can be made; `output_bytes`: of its
    answer; `file_bytes`: of each file; `space_mb`: of its only folder, in memory; `inodes`: files, folders and links in it.
    """

    cpu_s: float = 1.0
    wall_s: float = 4.0
    memory_mb: int = 256
    threads: int = 0
    processes: int = 0
    reserved_mb: int = 0
    output_bytes: int = 64 << 10
    file_bytes: int = 1 << 20
    space_mb: int = 4
    inodes: int = 2_000
    open_files: int = 64
