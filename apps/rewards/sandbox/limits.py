"""Limits on the resources of a guest."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """Limits of one guest, which is stopped within a second of passing one.

    `cpu_s`: processor time, rounded up to whole seconds by the kernel; `wall_s`: clock time, which
    also ends guests that sleep; `memory_mb`: of all its processes, in MiB; `reserved_mb`: address
    space that an interpreter sets aside beside that and does not use; `threads` beside its first;
    `processes`: other than its own (a compiler starts some), 0 means that none can be made;
    `output_bytes`: of its answer; `file_bytes`: of each file; `space_mb`: of its only folder, in
    memory; `inodes`: files, folders and links in it; `stack_mb`: of its first thread, 0 for the
    usual size.
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
    stack_mb: int = 0

    @property
    def deep(self) -> "Limits":
        """Return the same, with a first thread whose calls may fill the memory."""
        return replace(self, stack_mb=self.memory_mb)
