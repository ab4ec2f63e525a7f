"""Models that lie on the server below one folder, which the operator allows."""

import os
from pathlib import Path

from django.conf import settings

from apps.accounts.contained_paths import UnsafePath, contained_file, contained_folder

GGUF = ".gguf"
CONFIG = "config.json"
MAX_LISTED = 200  # models that a page offers
MAX_SEEN = 5_000  # entries of folders that are looked at for them
DEEPEST = 3  # levels of folders below the allowed one


def server_path(name: str) -> Path:
    """Return the path of a folder or GGUF file below the allowed folder. Raises UnsafePath.

    Links that lead out of the allowed folder are refused, as are those in the folder itself.
    """
    root = settings.MODELS_ROOT
    if root is None:
        raise UnsafePath(name, "cannot be read: RFTWEB_MODELS names no folder for models")
    if name.lower().endswith(GGUF):
        return contained_file(root, name)
    folder = contained_folder(root, name)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink() and root.resolve() not in Path(entry.path).resolve().parents:
                raise UnsafePath(f"{name}/{entry.name}", "is a link that points outside the folder")
    return folder


def listed_models() -> list[str]:
    """Return the folders with weights and the GGUF files below the allowed folder, by name."""
    root = settings.MODELS_ROOT
    if root is None or not root.is_dir():
        return []
    models: list[str] = []
    pending = [(root, 0)]
    entry_count = 0
    while pending and len(models) < MAX_LISTED and entry_count < MAX_SEEN:
        folder, depth = pending.pop()
        entries = _entries(folder)
        entry_count += len(entries)
        names = {entry.name for entry in entries}
        if depth and CONFIG in names and any(_is_weights(name) for name in names):
            models.append(str(folder.relative_to(root)))
            continue
        ggufs = (entry for entry in entries if entry.name.lower().endswith(GGUF))
        models += [str(Path(entry.path).relative_to(root)) for entry in ggufs if _is_file(entry)]
        if depth < DEEPEST:
            pending += [(Path(entry.path), depth + 1) for entry in entries if _is_folder(entry)]
    return sorted(models)[:MAX_LISTED]


def _entries(folder: Path) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not readable by this process
        return []


def _is_weights(name: str) -> bool:
    return name.endswith(".safetensors")


def _is_file(entry: os.DirEntry) -> bool:
    return entry.is_file(follow_symlinks=False)


def _is_folder(entry: os.DirEntry) -> bool:
    return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
