"""The two ways a taskset comes into being: from a file or folder, or from a seeded generator."""

from pathlib import Path

from apps.accounts.models import Project, User
from apps.tasksets import generators
from apps.tasksets.beside import beside
from apps.tasksets.duplicates import KEEP
from apps.tasksets.models import Taskset
from apps.tasksets.reading import Columns, read
from apps.tasksets.sources import opened
from apps.tasksets.storing import Origin, Progress, WhyNot, store


def import_file(
    path: Path,
    origin: Origin,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    quarantine: bool = False,
    progress: Progress = lambda position: None,
    format: str = "auto",
    split: str = "",
    duplicates: str = KEEP,
    why_not: WhyNot | None = None,
) -> Taskset:
    """The tasks of a file or folder as a new taskset; `progress(bytes read)`. Pictures may lie in files beside it.

    Raises BadLines, NotReadable, ValueError, OSError.
    """
    source = opened(path, format, split)
    rows = read(source, columns, beside(path / "folder" if path.is_dir() else path))
    return store(origin, rows, quarantine, lambda read: progress(source.at), duplicates, why_not)


def generate(
    project: Project,
    slug: str,
    name: str,
    size: int,
    seed: int,
    by: User | None = None,
    progress: Progress = lambda done: None,
) -> Taskset:
    """`size` tasks of the generator `name` as a new taskset. Raises LookupError, ValueError."""
    rows = generators.find(name)(size, seed)
    origin = Origin(project, slug, f"{name}, {size} tasks", name, seed, by)
    return store(origin, rows, progress=progress)
