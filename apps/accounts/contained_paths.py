"""Resolve file names given by uploads so that none of them leads out of its folder.

All code that reads a file name from outside uses this module: members of archives, files listed in
`state.json` and `dataset_dict.json`, pictures named in rows, shards of a policy's index.
"""

import os
import stat
import unicodedata
from pathlib import Path

MAX_NAME_LENGTH = 1024  # characters of a whole name
MAX_PART_LENGTH = 255  # bytes of one part, as file systems limit it
QUOTED = 100  # characters of a bad name that an error repeats
# Characters that look like a slash or backslash and that NFKC normalization does not change.
SLASH_LOOKALIKES = dict.fromkeys(map(ord, "\u2044\u2215\u2571\u29f8\u29f5\u2216\u29f9"), "/")


class UnsafePath(ValueError):
    """Raised for a name that cannot be used; the message quotes it and says why."""

    def __init__(self, name: object, reason: str) -> None:
        text = str(name)
        cut = text[:QUOTED] + ("…" if len(text) > QUOTED else "")
        super().__init__(f"{cut!r} {reason}")
        self.reason = reason


def safe_parts(name: object) -> tuple[str, ...]:
    """Return the parts of a relative name with forward slashes. Raises UnsafePath.

    The rules are those of the strictest system that the name may meet, not of this one: a name that
    is harmless here may lead out on Windows, or on a file system that normalizes Unicode.
    """
    if not isinstance(name, str):
        raise UnsafePath(name, "is not a file name")
    if not name or len(name) > MAX_NAME_LENGTH:
        raise UnsafePath(name, f"must have 1 to {MAX_NAME_LENGTH} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise UnsafePath(name, "contains a control character or an unpaired surrogate")
    parts = _require_relative(name, name)
    _require_relative(_fold_lookalikes(name), name)
    if any(len(part.encode()) > MAX_PART_LENGTH for part in parts):
        raise UnsafePath(name, f"has a part longer than {MAX_PART_LENGTH} bytes")
    return parts


def collision_key(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return a key that is equal for two names that some file system treats as the same file."""
    return tuple(_fold_lookalikes(part).casefold() for part in parts)


def single_name(name: object) -> str:
    """Return the name of a file that lies directly in its folder. Raises UnsafePath."""
    parts = safe_parts(name)
    if len(parts) > 1:
        raise UnsafePath(name, "must be a file name without folders")
    return parts[0]


def contained_file(folder: Path, name: object, *, may_share: bool = False) -> Path:
    """Return the real path of the plain file that `name` means inside `folder`. Raises UnsafePath.

    A file with several hard links is refused unless `may_share`: its other name may be anywhere.
    """
    path, status = _contained(folder, name)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafePath(name, "is not a regular file")
    if status.st_nlink > 1 and not may_share:
        raise UnsafePath(name, "is a hard link; use a copy of the file")
    return path


def contained_folder(folder: Path, name: object) -> Path:
    """Return the real path of the folder that `name` means inside `folder`. Raises UnsafePath."""
    path, status = _contained(folder, name)
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafePath(name, "is not a folder")
    return path


def _contained(folder: Path, name: object) -> tuple[Path, os.stat_result]:
    parts = safe_parts(name)
    root = folder.resolve()
    try:
        path = root.joinpath(*parts).resolve(strict=True)
        status = path.stat()
    except (OSError, RuntimeError):  # missing, or links that form a cycle
        raise UnsafePath(name, "is not in the folder") from None
    if root not in path.parents:
        raise UnsafePath(name, "points outside the folder")
    return path, status


def _fold_lookalikes(name: str) -> str:
    """Return the name with look-alike characters replaced and invisible ones removed."""
    visible = (part for part in name if unicodedata.category(part) != "Cf")
    return unicodedata.normalize("NFKC", "".join(visible)).translate(SLASH_LOOKALIKES)


def _require_relative(form: str, name: str) -> tuple[str, ...]:
    """Return the parts of one spelling of the name; raise UnsafePath, quoting `name`."""
    if "\\" in form:
        raise UnsafePath(name, "contains a backslash; use / between folders")
    if form.startswith("/") or (form[1:2] == ":" and form[0].isalpha()):
        raise UnsafePath(name, "is an absolute path; use a path relative to the folder")
    parts = tuple(form.split("/"))
    if any(part.strip(" .") == "" and part != "." for part in parts):
        raise UnsafePath(name, "has an empty part, or a part of dots only")
    if set(parts) == {"."}:
        raise UnsafePath(name, "is the folder itself")
    return tuple(part for part in parts if part != ".")
