"""The two ways a taskset comes into being: from a file or folder, or from a seeded generator."""

from pathlib import Path

from apps.accounts.confining import CPU_S
from apps.accounts.models import Project, User
from apps.tasksets import generators
from apps.tasksets.duplicates import KEEP
from apps.tasksets.models import Taskset
from apps.tasksets.reading import Columns, TaskRows, read_tasks
from apps.tasksets.sibling_pictures import picture_reader
from apps.tasksets.sources.apart import source_of_file
from apps.tasksets.sources.records import Source
from apps.tasksets.storing import Origin, Progress, WhyNot, store_taskset


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
    """Return the tasks of a file or folder as a new taskset; `progress(bytes read)`.

    Pictures may lie in files beside it.

    Raises BadLines, NotReadable, ValueError, OSError.
    """
    source, rows = rows_of_file(path, columns, format, split)
    return store_taskset(
        origin, rows, quarantine, lambda read: progress(source.at), duplicates, why_not
    )


def rows_of_file(
    path: Path, columns: Columns, format: str = "auto", split: str = ""
) -> tuple[Source, TaskRows]:
    """Return what reads the file or folder, and its rows as tasks.

    A process with bounded memory decodes the file, as it does an upload. Raises NotReadable and
    OSError, also while the rows are read.
    """
    source = source_of_file(path, format, split, CPU_S)
    return source, read_tasks(
        source, columns, picture_reader(path / "folder" if path.is_dir() else path)
    )


def generate(
    project: Project,
    slug: str,
    name: str,
    size: int,
    seed: int,
    by: User | None = None,
    progress: Progress = lambda task_count: None,
) -> Taskset:
    """Return `size` tasks of the generator `name` as a new taskset.

    Raises LookupError, ValueError.
    """
    rows = generators.find_generator(name)(size, seed)
    origin = Origin(project, slug, f"{name}, {size} tasks", name, seed, by)
    return store_taskset(origin, rows, progress=progress)
