"""Zip files of a data set's folder: only data files with safe names, within bounds."""

import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path, PurePosixPath

from apps.accounts.confining import require_decoder
from apps.accounts.contained_paths import UnsafePath, collision_key, safe_parts
from apps.tasksets.sources.names import format_by_name
from apps.tasksets.sources.records import BadLine, NotReadable, Record, Source

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
MAX_BYTES = 4 * 1000 * 1000 * 1000  # of all files together, unpacked
MAX_FILES = 10_000
PIECE = 1 << 20
OFFICE = "[Content_Types].xml"  # a file in each file of office programs, which are zip files
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


def is_zip(path: Path) -> bool:
    """Tell by the file's first bytes."""
    with path.open("rb") as stream:
        return stream.read(4) in MAGIC


class Archive:
    """A zip file that is unpacked to a folder for as long as it is read.

    `read` makes the source of that folder.
    """

    def __init__(self, path: Path, read: Callable[[Path], Source]) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="unpacked-")
        folder = Path(self._place.name) / "folder"
        unpack_archive(path, folder)
        self._source = read(folder)
        self.size = self._source.size

    @property
    def at(self) -> int:
        return self._source.at

    def __iter__(self) -> Iterator[Record | BadLine]:
        yield from self._source


def unpack_archive(packed: Path, into: Path) -> int:
    """Write the data files into a new folder; their bytes.

    Raises NotReadable, and what was written is left to the caller.

    What a file says of its own size is not believed. A folder that all files lie in goes.
    """
    require_decoder()
    into.mkdir(mode=0o700)
    try:
        with zipfile.ZipFile(packed) as archive:
            members = _members(archive)
            outer = _outer([name for name, _ in members])
            total = 0
            for name, member in members:
                target = into.joinpath(*name.parts[outer:])
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("xb") as stream:
                    for piece in iter(lambda: source.read(PIECE), b""):
                        total += len(piece)
                        if total > MAX_BYTES:
                            raise NotReadable(
                                f"the unpacked archive is larger than {MAX_BYTES / 1e9:.0f} "
                                "GB; use manage.py for larger ones"
                            )
                        stream.write(piece)
    except BROKEN as error:
        raise NotReadable(f"not a readable zip file: {error}") from None
    return total


def _members(archive: zipfile.ZipFile) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    members = [
        (PurePosixPath(member.filename), member)
        for member in archive.infolist()
        if not member.is_dir()
    ]
    data = [
        (name, member)
        for name, member in members
        if format_by_name(name.name) and not _is_hidden(name)
    ]
    if not data and any(name.name == OFFICE for name, _ in members):
        raise NotReadable("this is a file of Excel or another office program; save it as CSV")
    if not data:
        raise NotReadable("the archive contains no data file")
    if len(data) > MAX_FILES:
        raise NotReadable(f"the archive has {len(data):,} data files; the limit is {MAX_FILES:,}")
    return _require_safe(data)


def _require_safe(
    members: list[tuple[PurePosixPath, zipfile.ZipInfo]],
) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Return the members under the names that they are written by. Raises NotReadable."""
    safe: list[tuple[PurePosixPath, zipfile.ZipInfo]] = []
    names_by_key: dict[Hashable, str] = {}
    for _, member in members:
        try:
            parts = safe_parts(member.filename)
        except UnsafePath as error:
            raise NotReadable(
                f"the zip file names a file that cannot be written: {error}"
            ) from None
        if stat.S_ISLNK(member.external_attr >> 16):
            raise NotReadable(
                f"the zip file contains a link, {member.filename[:100]!r}; add the file itself"
            )
        key = collision_key(parts)
        if key in names_by_key:
            raise NotReadable(
                f"the zip file contains one file twice: {names_by_key[key][:100]!r} and "
                f"{member.filename[:100]!r}"
            )
        names_by_key[key] = member.filename
        safe.append((PurePosixPath(*parts), member))
    return safe


def _is_hidden(name: PurePosixPath) -> bool:
    """Tell whether macOS added this file to the archive."""
    return name.parts[0] == "__MACOSX" or name.name.startswith("._")


def _outer(names: list[PurePosixPath]) -> int:
    """Return the number of outer folders that all files share."""
    shared = 0
    for parts in zip(*(name.parts[:-1] for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return shared
