"""Files of imports on disk, kept until their import is over.

A file whose import was never started is kept for a day.
"""

import shutil
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import PurePosixPath

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils.text import slugify

from apps.accounts.locking import lock_one
from apps.accounts.models import Project, User
from apps.tasksets.models import ImportOver, TasksetImport
from apps.tasksets.sources.names import ZIP, find_format_suffix

MAX_HELD = 5  # files of a project that are looked at or under way
LOOKED_AT_HOURS = 24
OF_MODELS = "models"  # folder of uploaded models, which are kept by rules of their own
ORPHANED_SECONDS = 3600  # after which a file that belongs to no import is deleted


class TooManyHeld(ValueError):
    """Raised if the project has as many open imports as it may."""


def create_import(
    project: Project, by: User, name: str, size: int, pieces: Iterable[bytes]
) -> TasksetImport:
    """Return a new import of the file in these pieces; of a zip file, of the folder in it.

    A worker makes its preview.

    Nothing of the file is decoded here. Raises TooManyHeld, OSError.
    """
    is_packed = name.lower().endswith(ZIP)
    suffix = "" if is_packed else find_format_suffix(name)
    with (
        transaction.atomic()
    ):  # not around the writing, which keeps the project's row to itself for too long
        _require_room(project)
        slug = slugify(PurePosixPath(name).stem)[:50]
        taskset_import = TasksetImport.objects.create(
            project=project, by=by, name=name, slug=slug, suffix=suffix, bytes=size
        )
    taskset_import.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with (taskset_import.packed_path if is_packed else taskset_import.path).open(
            "wb"
        ) as stream:
            stream.writelines(pieces)
        taskset_import.ask_preview({})  # only now: a worker takes it at once
    except BaseException:
        taskset_import.forget_file()
        taskset_import.delete()
        raise
    return taskset_import


@transaction.atomic
def ask_hub(project: Project, by: User, name: str, config: str, split: str) -> TasksetImport:
    """Create and return an import of a Hub data set, which a worker fetches and previews.

    Raises TooManyHeld.
    """
    _require_room(project)
    source = {"name": name, "config": config, "split": split}
    place = " ".join(filter(None, [name, config, split]))[:200]
    slug = slugify(name.rpartition("/")[2])[:50]
    return TasksetImport.objects.create(
        project=project,
        by=by,
        name=place,
        slug=slug,
        suffix=".jsonl",
        bytes=0,
        hub=source,
        state=TasksetImport.State.WAITING,
    )


def _require_room(project: Project) -> None:
    """Lock the project, and raise TooManyHeld if it has too many open imports."""
    lock_one(Project.objects.filter(pk=project.pk))
    open_imports = project.taskset_imports.exclude(state__in=TasksetImport.OVER)
    if open_imports.count() >= MAX_HELD:
        raise TooManyHeld(
            f"{project.slug} has {MAX_HELD} uploaded files that are not imported yet; import "
            "or discard one"
        )


def clear_away() -> int:
    """Give up imports that were not started for a day, and delete files that none needs.

    Return how many went.
    """
    old = TasksetImport.objects.filter(
        state=TasksetImport.State.LOOKED_AT, created_at__lt=Now() - timedelta(hours=LOOKED_AT_HOURS)
    )
    for taskset_import in old:
        try:
            taskset_import.stop(f"not started within {LOOKED_AT_HOURS} hours")
        except ImportOver:  # it was, just now
            continue
    return len(old) + _delete_orphans()


def _delete_orphans() -> int:
    if not settings.IMPORTS_ROOT.is_dir():
        return 0
    before = time.time() - ORPHANED_SECONDS
    upload_files = [file for file in settings.IMPORTS_ROOT.iterdir() if file.name != OF_MODELS]
    files = [file for file in upload_files if file.stat().st_mtime < before]
    if not files:
        return 0
    needed = TasksetImport.objects.exclude(state__in=TasksetImport.OVER)
    names = {
        path.name
        for taskset_import in needed
        for path in (taskset_import.path, taskset_import.packed_path)
    }
    orphans = [file for file in files if file.name not in names]
    for file in orphans:
        if file.is_dir():
            shutil.rmtree(file, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)
    return len(orphans)
