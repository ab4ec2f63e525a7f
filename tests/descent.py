"""Who descends from a process, read from /proc while threads and processes come and go."""

from pathlib import Path


def children(pid: int) -> list[int]:
    """Living children; a thread or process that ends while it is looked at has none."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(name) for name in file.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Living descendants, the nearest first."""
    return [one for child in children(pid) for one in (child, *descendants(child))]
