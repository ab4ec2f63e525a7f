"""The two ways a taskset comes into being: from a JSON lines file, or from a seeded generator."""

from collections.abc import Callable
from pathlib import Path

from apps.accounts.models import Project, User
from apps.tasksets import generators
from apps.tasksets.beside import beside
from apps.tasksets.models import Taskset
from apps.tasksets.reading import Columns, read_jsonl
from apps.tasksets.storing import Origin, store


def import_jsonl(
    path: Path,
    origin: Origin,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    quarantine: bool = False,
    progress: Callable[[int], None] = lambda position: None,
) -> Taskset:
    """The file's tasks as a new taskset; `progress(bytes read)`. Raises BadLines, ValueError, OSError."""
    with path.open("rb") as stream:
        return store(origin, read_jsonl(stream, columns, beside(path)), quarantine, lambda read: progress(stream.tell()))


def generate(
    project: Project,
    slug: str,
    name: str,
    size: int,
    seed: int,
    by: User | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Taskset:
    """`size` tasks of the generator `name` as a new taskset. Raises LookupError, ValueError."""
    rows = generators.find(name)(size, seed)
    origin = Origin(project, slug, f"{name}, {size} tasks", name, seed, by)
    return store(origin, rows, progress=progress)
