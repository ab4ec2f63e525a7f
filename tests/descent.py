"""Who descends from a process, read from /proc while threads and processes come and go."""

from pathlib import Path


def children(pid: int) -> list[int]:
    """Living children; a thread or process that ends while it is looked at has none."""
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
    """Whether the process's name begins so; one that has ended has none."""
    return _read(pid, "comm").startswith(start)


def is_alive(pid: int) -> bool:
    """Whether it runs: what has ended and was not buried does not."""
    return _read(pid, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descendants(pid: int) -> list[int]:
    """Living descendants, the nearest first."""
    return [one for child in children(pid) for one in (child, *descendants(child))]
