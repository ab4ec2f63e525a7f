"""Descendants of a process, read from /proc while threads and processes come and go."""

from pathlib import Path


def children(pid: int) -> list[int]:
    """Return living children; a thread or process that ends meanwhile has none."""
    found: list[int] = []
    for file in _lists_of_children(pid):
        try:
            found += [int(name) for name in file.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _lists_of_children(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").glob("*/children"))
    except (FileNotFoundError, ProcessLookupError):  # it ended while its folder was read
        return []


def is_called(pid: int, start: str) -> bool:
    """Tell whether the process's name begins with `start`; a process that has ended has no name."""
    return _read(pid, "comm").startswith(start)


def is_alive(pid: int) -> bool:
    """Tell whether the process runs; a zombie does not."""
    return _read(pid, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descendants(pid: int) -> list[int]:
    """Return living descendants, children before their own children."""
    return [one for child in children(pid) for one in (child, *descendants(child))]
