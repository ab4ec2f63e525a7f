"""Folders of the Hugging Face Hub's local cache, in which the files of a snapshot link to blobs.

    models--owner--name/refs/main               the commit that a branch or tag names
    models--owner--name/snapshots/<commit>/…    links to ../../blobs/<checksum>
    models--owner--name/blobs/<checksum>        the bytes

A link is followed to a blob of the same cache and nowhere else. As with the Hub itself, only
weights, configuration and tokenizer are taken; other files of the snapshot are left out.
"""

import os
import re
import shutil
import stat
from pathlib import Path

from apps.policies.damage import Damage, DamagedWeights
from apps.policies.folder import KNOWN_FILES, MANIFEST

REVISION = re.compile(r"[\w-][\w.-]*")
OUTSIDE = "is a link to something outside this cache"


def snapshot_in(folder: Path, revision: str) -> Path | None:
    """Return the snapshot that `folder` is or holds for this revision; None for other folders.

    Raises DamagedWeights if the folder is a model's cache without that revision.
    """
    folder = folder.resolve()
    if folder.parent.name == "snapshots" and (folder.parent.parent / "blobs").is_dir():
        return folder
    if not (folder / "snapshots").is_dir() or not (folder / "blobs").is_dir():
        return None
    snapshot = _find_snapshot(folder, revision)
    if snapshot is None:
        revisions = ", ".join(sorted(path.name for path in (folder / "refs").glob("*")))
        why = f"this cache has no revision {revision!r}; it has {revisions or 'none'}"
        raise DamagedWeights(Damage.MISSING_FILE, folder.name, why)
    return snapshot


def copy_snapshot(snapshot: Path, target: Path) -> None:
    """Copy the snapshot's model files to the new folder `target`.

    Raises DamagedWeights, OSError.
    """
    # `blobs` itself is not a link, or no resolved path would be inside it.
    blobs = snapshot.parent.parent / "blobs"
    target.mkdir()
    with os.scandir(snapshot) as entries:
        file_names = sorted(entry.name for entry in entries if _is_wanted(entry.name))
    for name in file_names:
        _copy(_bytes_of(snapshot / name, blobs), target / name)


def _find_snapshot(folder: Path, revision: str) -> Path | None:
    if not REVISION.fullmatch(revision):
        return None
    commit = revision
    ref = folder / "refs" / revision
    if ref.is_file() and not ref.is_symlink():
        commit = ref.read_text(encoding="ascii", errors="replace")[:100].strip()
    snapshot = folder / "snapshots" / commit
    is_plain = bool(REVISION.fullmatch(commit)) and not snapshot.is_symlink()
    return snapshot if is_plain and snapshot.is_dir() else None


def _is_wanted(name: str) -> bool:
    return name in KNOWN_FILES - {MANIFEST} or name.endswith(".safetensors")


def _bytes_of(path: Path, blobs: Path) -> Path:
    """Return the file itself, or the blob that it links to. Raise DamagedWeights."""
    if not path.is_symlink():
        return path
    blob = Path(os.path.normpath(path.parent / os.readlink(path)))
    if blob.parent.resolve() != blobs or blob.is_symlink():
        raise DamagedWeights(Damage.UNSAFE_FILE, path.name, OUTSIDE)
    return blob


def _copy(source: Path, target: Path) -> None:
    """Copy a file without following a link put in its place. Raise DamagedWeights, OSError."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DamagedWeights(Damage.UNSAFE_FILE, target.name, "only regular files are allowed")
        with target.open("xb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
